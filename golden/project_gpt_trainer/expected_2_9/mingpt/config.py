from types import SimpleNamespace


def get_config():
    return SimpleNamespace(
        seed=3407,
        work_dir="./out",
        block_size=8,
        device="auto",
        max_iters=12,
        batch_size=6,
        learning_rate=5e-3,
        betas=(0.9, 0.95),
        weight_decay=0.1,
        grad_norm_clip=1.0,
    )
