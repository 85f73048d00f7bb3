import math
import sys

import torch

import utils


def train_one_epoch(model, criterion, data_loader, optimizer, device, epoch, max_norm=0):
    model.train()
    criterion.train()
    metric_logger = utils.MetricLogger(delimiter="  ")
    header = "Epoch: [{}]".format(epoch)

    for samples, targets in metric_logger.log_every(data_loader, 4, header):
        samples = samples.to(device)
        targets = {k: v.to(device) for k, v in targets.items()}

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

    for samples, targets in metric_logger.log_every(data_loader, 4, "Test:"):
        samples = samples.to(device)
        targets = {k: v.to(device) for k, v in targets.items()}
        loss_dict = criterion(model(samples), targets)
        loss_dict_reduced = utils.reduce_dict(loss_dict)
        metric_logger.update(val_loss=sum(loss_dict_reduced.values()).item())
    metric_logger.synchronize_between_processes()
    return {k: meter.global_avg for k, meter in metric_logger.meters.items()}
