import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class BallEnv:
    """A ball rolls down a noisy slope; the observation is its last positions."""

    def __init__(self, balls=12, memory=5):
        self.balls, self.memory = balls, memory
        self.reset()

    def reset(self):
        self.velocity = 0.1 * torch.randn(self.balls)
        self.track = torch.zeros(self.balls, self.memory)

    def step(self):
        self.velocity = 0.95 * self.velocity + 0.05 * torch.randn(self.balls)
        position = self.track[:, -1] + self.velocity
        self.track = torch.cat([self.track[:, 1:], position.unsqueeze(1)], dim=1)
        return self.track.clone()


class Runner:
    def __init__(self, net, opt, crit, env, sched=None):
        self.net, self.opt, self.crit = net, opt, crit
        self.env, self.sched = env, sched
        self.steps = 0

    def one(self, xs, ys):
        self.opt.zero_grad()
        loss = self.crit(self.net(xs), ys)
        loss.backward()
        xm.optimizer_step(self.opt)
        self.env.step()
        if self.sched is not None:
            self.sched.step()
        self.steps += 1
        return loss.detach()

    def run(self, n, device):
        self.env.reset()
        for _ in range(self.env.memory):
            self.env.step()
        total = torch.zeros(1).to(device)
        for _ in range(n):
            seen = self.env.step()
            xs, ys = seen[:, :-1].to(device), seen[:, -1:].to(device)
            total += self.one(xs, ys)
            torch_xla.sync()
        return total.item() / n


def main():
    torch.manual_seed(5)
    torch_xla.manual_seed(5)
    device = torch_xla.device()
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=30)
    runner = Runner(net, opt, nn.MSELoss(), BallEnv(), sched)
    for round_ in range(3):
        loss = runner.run(10, device)
        print(f"round {round_} after {runner.steps} steps: {loss:.5f}")


if __name__ == "__main__":
    main()
