import argparse

import torch
import torch_xla

from worker import main_worker


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8, help="of all GPUs together")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch_xla.launch(main_worker, args=(args,))


if __name__ == "__main__":
    main()
