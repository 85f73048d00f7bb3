import argparse
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch_xla
import torch_xla.core.xla_model as xm
from torch.distributions import Categorical

parser = argparse.ArgumentParser(description="REINFORCE on a line")
parser.add_argument("--gamma", type=float, default=0.97)
parser.add_argument("--episodes", type=int, default=8)
parser.add_argument("--seed", type=int, default=543)
parser.add_argument("--log-interval", type=int, default=4)
args = parser.parse_args()


class LineWorld:
    """Walk to the right end of a line; every step costs a little."""

    def __init__(self, length=7, limit=12):
        self.length, self.limit = length, limit

    def reset(self):
        self.pos, self.t = self.length // 2, 0
        return self._observe()

    def _observe(self):
        return np.array([self.pos / self.length, self.t / self.limit], dtype=np.float32)

    def step(self, action):
        self.pos += 1 if action == 1 else -1
        self.pos = max(self.pos, 0)
        self.t += 1
        won = self.pos >= self.length
        return self._observe(), 1.0 if won else -0.1, won or self.t >= self.limit


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(2, 16)
        self.affine2 = nn.Linear(16, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        return F.softmax(self.affine2(torch.tanh(self.affine1(x))), dim=1)


torch.manual_seed(args.seed)
torch_xla.manual_seed(args.seed)
device = torch_xla.device()
env = LineWorld()
policy = Policy().to(device)
optimizer = optim.Adam(policy.parameters(), lr=1e-2)
eps = 1e-6


def select_action(state):
    state = torch.from_numpy(state).float().unsqueeze(0).to(device)
    probs = policy(state)
    m = Categorical(probs, validate_args=False)
    action = m.sample()
    policy.saved_log_probs.append(m.log_prob(action))
    return action.item()


def finish_episode():
    R = 0
    returns = deque()
    for r in policy.rewards[::-1]:
        R = r + args.gamma * R
        returns.appendleft(R)
    returns = torch.tensor(list(returns)).to(device)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_loss = []
    for log_prob, R in zip(policy.saved_log_probs, returns):
        policy_loss.append(-log_prob * R)
    optimizer.zero_grad()
    policy_loss = torch.cat(policy_loss).sum()
    policy_loss.backward()
    xm.optimizer_step(optimizer)
    del policy.rewards[:]
    del policy.saved_log_probs[:]


def main():
    running_reward = 0
    for i_episode in range(1, args.episodes + 1):
        state, ep_reward, done = env.reset(), 0, False
        while not done:
            action = select_action(state)
            state, reward, done = env.step(action)
            policy.rewards.append(reward)
            ep_reward += reward
        running_reward = 0.2 * ep_reward + 0.8 * running_reward
        finish_episode()
        torch_xla.sync()
        if i_episode % args.log_interval == 0:
            print(
                f"Episode {i_episode}\tLast: {ep_reward:.2f}\tAvg: {running_reward:.2f}"
            )


if __name__ == "__main__":
    main()
