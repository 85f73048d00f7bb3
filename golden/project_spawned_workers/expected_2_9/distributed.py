import torch
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr


def is_main():
    return xr.global_ordinal() == 0


def total(value):
    value = value.clone()
    xm.all_reduce("sum", [value])
    return value


def mean(value):
    return total(value) / xr.world_size()


def save(state, path):
    xm.save(state, path)
    xm.rendezvous("save")
