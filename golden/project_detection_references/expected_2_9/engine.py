import math
import sys

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

import utils


def train_one_epoch(model, criterion, data_loader, optimizer, device, epoch, max_norm=0):
    model.train()
    criterion.train()
    metric_logger = utils.MetricLogger(delimiter="  ")
    header = "Epoch: [{}]".format(epoch)

    data_device_loader = data_loader
    if device.type == "xla":
        data_device_loader = pl.MpDeviceLoader(data_loader, device)
    for samples, targets in metric_logger.log_every(data_device_loader, 4, header):
        outputs = model(samples)
        loss_dict = criterion(outputs, targets)
        losses = sum(loss_dict.values())

        # reduce losses over all GPUs for logging purposes
        loss_dict_reduced = utils.reduce_dict(loss_dict)
        loss_value = sum(loss_dict_reduced.values()).item()

        if not math.isfinite(loss_value):
            print("Loss is {}, stopping training".format(loss_value))
            sys.exit(1)

        optimizer.zero_grad()
        losses.backward()
        xm.reduce_gradients(optimizer)
        if max_norm > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()

        metric_logger.update(loss=loss_value)
    # gather the stats from all processes
    metric_logger.synchronize_between_processes()
    return {k: meter.global_avg for k, meter in metric_logger.meters.items()}


@torch.no_grad()
def evaluate(model, criterion, data_loader, device):
    model.eval()
    criterion.eval()
    metric_logger = utils.MetricLogger(delimiter="  ")

    data_device_loader = data_loader
    if device.type == "xla":
        data_device_loader = pl.MpDeviceLoader(data_loader, device)
    for samples, targets in metric_logger.log_every(data_device_loader, 4, "Test:"):
        loss_dict = criterion(model(samples), targets)
        loss_dict_reduced = utils.reduce_dict(loss_dict)
        torch_xla.sync()
        metric_logger.update(val_loss=sum(loss_dict_reduced.values()).item())
    metric_logger.synchronize_between_processes()
    return {k: meter.global_avg for k, meter in metric_logger.meters.items()}
