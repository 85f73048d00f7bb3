import argparse
from dataclasses import dataclass, fields


@dataclass
class Config:
    device: str = "cuda"
    optimizer: str = "sgd"
    amp: bool = False
    lr: float = 0.05
    epochs: int = 2
    batch_size: int = 8
    grad_clip: float = 1.0


def parse() -> Config:
    parser = argparse.ArgumentParser()
    for field in fields(Config):
        if field.type is bool:
            parser.add_argument(f"--{field.name}", action="store_true")
        else:
            parser.add_argument(f"--{field.name}", type=field.type, default=field.default)
    return Config(**vars(parser.parse_args()))
