"""What the names on the command line stand for."""
import torch

from datasets import FACTORIES
from registry import MODELS

import networks  # noqa: F401  (fills the registry)


def build_model(name, **kwargs):
    return MODELS[name](**kwargs)


def build_optimizer(args, model):
    decay, no_decay = [], []
    for name, parameter in model.named_parameters():
        (no_decay if parameter.ndim < 2 else decay).append(parameter)
    groups = [
        {"params": decay, "weight_decay": 1e-2},
        {"params": no_decay, "weight_decay": 0.0},
    ]
    return getattr(torch.optim, args.opt)(groups, lr=args.lr)


def build_loader(name, train):
    return FACTORIES[name](train)
