CONFIG = {
    "n_gpu": 1,
    "arch": {"num_classes": 3},
    "loss": "nll_loss",
    "lr": 0.01,
    "data_loader": {"batch_size": 8, "shuffle": True, "length": 40, "validation": 8},
    "trainer": {"epochs": 3, "save_dir": "saved", "monitor": "val_loss", "early_stop": 2},
}
