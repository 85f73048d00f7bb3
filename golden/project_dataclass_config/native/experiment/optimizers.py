from functools import partial

import torch

OPTIMIZERS = {
    "sgd": partial(torch.optim.SGD, momentum=0.9, nesterov=True),
    "adam": torch.optim.Adam,
    "adamw": partial(torch.optim.AdamW, weight_decay=0.01),
}
