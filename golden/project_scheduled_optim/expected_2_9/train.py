"""Train a small sequence-to-sequence model."""
import argparse
import math
import time

import torch
import torch.nn.functional as F
import torch.optim as optim
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

import constants
from corpus import prepare_dataloaders
from net.models import Seq2Seq
from net.optim import ScheduledOptim


def cal_performance(pred, gold, trg_pad_idx):
    """Apply label smoothing if needed"""
    loss = cal_loss(pred, gold, trg_pad_idx)
    pred = pred.max(1)[1]
    gold = gold.contiguous().view(-1)
    non_pad_mask = gold.ne(trg_pad_idx)
    n_correct = pred.eq(gold).masked_fill(~non_pad_mask, False).sum().item()
    n_word = non_pad_mask.sum().item()
    return loss, n_correct, n_word


def cal_loss(pred, gold, trg_pad_idx):
    return F.cross_entropy(pred, gold.contiguous().view(-1), ignore_index=trg_pad_idx, reduction="sum")


def patch_trg(trg):
    gold = trg[:, 1:].contiguous().view(-1)
    trg = trg[:, :-1]
    return trg, gold


def train_epoch(model, training_data, optimizer, device):
    """Epoch operation in training phase"""
    model.train()
    total_loss, n_word_total, n_word_correct = 0, 0, 0

    training_data_device_loader = training_data
    if device.type == "xla":
        training_data_device_loader = pl.MpDeviceLoader(training_data, device)
    for batch in training_data_device_loader:
        # prepare data
        src_seq, trg_seq = batch
        trg_seq, gold = patch_trg(trg_seq)

        # forward
        optimizer.zero_grad()
        pred = model(src_seq, trg_seq)

        # backward and update parameters
        loss, n_correct, n_word = cal_performance(pred, gold, constants.PAD)
        loss.backward()
        optimizer.step_and_update_lr()

        # note keeping
        n_word_total += n_word
        n_word_correct += n_correct
        total_loss += loss.detach()
    total_loss = float(total_loss)

    return total_loss / n_word_total, n_word_correct / n_word_total


def eval_epoch(model, validation_data, device):
    """Epoch operation in evaluation phase"""
    model.eval()
    total_loss, n_word_total, n_word_correct = 0, 0, 0

    with torch.no_grad():
        validation_data_device_loader = validation_data
        if device.type == "xla":
            validation_data_device_loader = pl.MpDeviceLoader(validation_data, device)
        for batch in validation_data_device_loader:
            src_seq, trg_seq = batch
            trg_seq, gold = patch_trg(trg_seq)
            pred = model(src_seq, trg_seq)
            loss, n_correct, n_word = cal_performance(pred, gold, constants.PAD)
            n_word_total += n_word
            n_word_correct += n_correct
            torch_xla.sync()
            total_loss += loss.item()

    return total_loss / n_word_total, n_word_correct / n_word_total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-epoch", type=int, default=3)
    parser.add_argument("-b", "--batch_size", type=int, default=8)
    parser.add_argument("-d_model", type=int, default=16)
    parser.add_argument("-warmup", "--n_warmup_steps", type=int, default=6)
    parser.add_argument("-lr_mul", type=float, default=0.5)
    parser.add_argument("-no_cuda", action="store_true")
    opt = parser.parse_args()
    opt.cuda = not opt.no_cuda

    torch.manual_seed(11)
    torch_xla.manual_seed(11)
    device = torch_xla.device() if opt.cuda else torch.device("cpu")
    training_data, validation_data = prepare_dataloaders(opt.batch_size)

    model = Seq2Seq(constants.VOCABULARY, opt.d_model, constants.PAD).to(device)
    model.out.weight = model.embed.weight
    optimizer = ScheduledOptim(
        optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-09),
        opt.lr_mul,
        opt.d_model,
        opt.n_warmup_steps,
    )

    valid_losses = []
    for epoch_i in range(opt.epoch):
        start = time.time()
        train_loss, train_accu = train_epoch(model, training_data, optimizer, device)
        lr = optimizer._optimizer.param_groups[0]["lr"]
        valid_loss, valid_accu = eval_epoch(model, validation_data, device)
        assert time.time() >= start
        print(f"{epoch_i} ppl {math.exp(train_loss):.3f} accuracy {train_accu:.3f} lr {lr:.6f}")
        print(f"  valid ppl {math.exp(valid_loss):.3f} accuracy {valid_accu:.3f}")

        valid_losses += [valid_loss]
        checkpoint = {"epoch": epoch_i, "settings": opt, "model": model.state_dict()}
        if valid_loss <= min(valid_losses):
            xm.save(checkpoint, "model.chkpt")
            print("    - [Info] The checkpoint file has been updated.")


if __name__ == "__main__":
    main()
