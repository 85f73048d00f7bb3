import torch

# Hyperparameters etc.
LEARNING_RATE = 1e-3
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BATCH_SIZE = 4
NUM_EPOCHS = 2
NUM_WORKERS = 0
PIN_MEMORY = True
LOAD_MODEL = False
CHECKPOINT = "my_checkpoint.pth.tar"
SEED = 2
