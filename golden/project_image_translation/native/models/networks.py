import torch
from torch import nn
from torch.nn import init


def init_net(net, gpu_ids=[]):
    if len(gpu_ids) > 0:
        assert torch.cuda.is_available()
        net.to(gpu_ids[0])
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            init.normal_(module.weight.data, 0.0, 0.05)
            init.constant_(module.bias.data, 0.0)
    return net


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 3, 3, padding=1), nn.Tanh())

    def forward(self, input):
        return self.model(input)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Conv2d(6, 8, 4, stride=2), nn.LeakyReLU(0.2), nn.Conv2d(8, 1, 3))

    def forward(self, input):
        return self.model(input)
