import time

import torch

from data import create_dataset
from models import create_model
from options import parse_options

if __name__ == "__main__":
    opt = parse_options()
    torch.manual_seed(opt.seed)
    dataset = create_dataset(opt)
    print("The number of training images = %d" % len(dataset))

    model = create_model(opt)
    model.setup(opt)
    total_iters = 0

    for epoch in range(opt.epoch_count, opt.n_epochs + 1):
        epoch_start_time = time.time()
        for i, data in enumerate(dataset):
            total_iters += opt.batch_size
            model.set_input(data)
            model.optimize_parameters()

            if total_iters % opt.print_freq == 0:
                losses = model.get_current_losses()
                message = "(epoch: %d, iters: %d) " % (epoch, total_iters)
                print(message + " ".join("%s: %.4f" % item for item in losses.items()))

        model.save_networks("latest")
        model.update_learning_rate()
        assert time.time() >= epoch_start_time
