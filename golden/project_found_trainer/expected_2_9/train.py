import argparse

import torch
import torch_xla

from finding import find_trainer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainer", default="Regression", help="a class in a module of this folder")
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch_xla.manual_seed(0)
    trainer = find_trainer(args.trainer)(torch_xla.device(), terms=["value", "size"], lr=0.05)
    trainer.run(args.epochs)


if __name__ == "__main__":
    main()
