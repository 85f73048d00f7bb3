import argparse
import os

import torch


def parse_options():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--gpu_ids", type=str, default="0", help="gpu ids: e.g. 0  0,1,2. use -1 for CPU")
    parser.add_argument("--checkpoints_dir", type=str, default="./checkpoints")
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--epoch_count", type=int, default=1)
    parser.add_argument("--n_epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.002)
    parser.add_argument("--beta1", type=float, default=0.5)
    parser.add_argument("--lambda_L1", type=float, default=10.0)
    parser.add_argument("--print_freq", type=int, default=8)
    parser.add_argument("--seed", type=int, default=5)
    opt = parser.parse_args()

    # set gpu ids
    str_ids = opt.gpu_ids.split(",")
    opt.gpu_ids = []
    for str_id in str_ids:
        id = int(str_id)
        if id >= 0:
            opt.gpu_ids.append(id)
    if len(opt.gpu_ids) > 0:
        torch.cuda.set_device(opt.gpu_ids[0])

    os.makedirs(opt.checkpoints_dir, exist_ok=True)
    return opt
