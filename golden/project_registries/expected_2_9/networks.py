from torch import nn

from registry import register_model


@register_model("mlp")
class Mlp(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, num_classes))

    def forward(self, x):
        return self.layers(x)


@register_model("convnet")
class ConvNet(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten())
        self.head = nn.Linear(72, num_classes)

    def forward(self, x):
        return self.head(self.features(x))
