"""Sine wave regression with L-BFGS."""

import argparse

import torch
import torch.nn as nn
import torch.optim as optim
import torch_xla
import torch_xla.core.xla_model as xm


class Sequence(nn.Module):
    def __init__(self, window=8):
        super().__init__()
        self.window = window
        self.hidden = nn.Linear(window, 16)
        self.out = nn.Linear(16, 1)

    def forward(self, series):
        frames = series.unfold(1, self.window, 1)
        return self.out(torch.tanh(self.hidden(frames))).squeeze(-1)


def sine_waves(count, length):
    shift = torch.randint(-20, 20, (count, 1)).float()
    t = torch.arange(length).float() + shift
    return torch.sin(t / 5.0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2, help="steps to run")
    opt = parser.parse_args()

    torch.manual_seed(0)
    torch_xla.manual_seed(0)
    device = torch_xla.device()

    data = sine_waves(12, 20).to(device)
    inputs, target = data[3:, :-1], data[3:, 8:]
    test_input, test_target = data[:3, :-1], data[:3, 8:]

    seq = Sequence().to(device)
    criterion = nn.MSELoss()
    # LBFGS wants the whole data set in one batch
    optimizer = optim.LBFGS(seq.parameters(), lr=0.3, max_iter=3, history_size=3)
    for i in range(opt.steps):
        print("STEP: ", i)

        def closure():
            optimizer.zero_grad()
            out = seq(inputs)
            loss = criterion(out, target)
            print("loss: %.6f" % loss.item())
            loss.backward()
            return loss

        optimizer.step(closure)
        with torch.no_grad():
            pred = seq(test_input)
            loss = criterion(pred, test_target)

            def log_step(loss, pred):
                global y
                print("test loss: %.6f" % loss.item())
                y = pred.detach().cpu().numpy()

            xm.add_step_closure(log_step, args=(loss, pred))
        torch_xla.sync()
    print("last prediction", y[0, -3:].round(3))
