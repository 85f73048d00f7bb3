import os
from abc import ABC, abstractmethod
from collections import OrderedDict

import torch


class BaseModel(ABC):
    def __init__(self, opt):
        self.opt = opt
        self.gpu_ids = opt.gpu_ids
        self.device = torch.device("cuda:{}".format(self.gpu_ids[0])) if self.gpu_ids else torch.device("cpu")
        self.save_dir = opt.checkpoints_dir
        self.loss_names = []
        self.model_names = []
        self.optimizers = []

    @abstractmethod
    def set_input(self, input):
        """Unpack input data from the dataloader"""

    @abstractmethod
    def optimize_parameters(self):
        """Calculate losses, gradients, and update network weights"""

    def setup(self, opt):
        self.schedulers = [
            torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5) for optimizer in self.optimizers
        ]

    def update_learning_rate(self):
        for scheduler in self.schedulers:
            scheduler.step()
        lr = self.optimizers[0].param_groups[0]["lr"]
        print("learning rate = %.7f" % lr)

    def get_current_losses(self):
        errors_ret = OrderedDict()
        for name in self.loss_names:
            # float(...) works for both scalar tensor and float number
            errors_ret[name] = float(getattr(self, "loss_" + name))
        return errors_ret

    def save_networks(self, epoch):
        for name in self.model_names:
            save_path = os.path.join(self.save_dir, "%s_net_%s.pth" % (epoch, name))
            net = getattr(self, "net" + name)
            if len(self.gpu_ids) > 0 and torch.cuda.is_available():
                torch.save(net.cpu().state_dict(), save_path)
                net.cuda(self.gpu_ids[0])
            else:
                torch.save(net.cpu().state_dict(), save_path)

    def set_requires_grad(self, nets, requires_grad=False):
        for net in nets if isinstance(nets, list) else [nets]:
            for param in net.parameters():
                param.requires_grad = requires_grad
