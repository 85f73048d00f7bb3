import math
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.optim as optim
import torch_xla
import torch_xla.core.xla_model as xm

# if GPU is to be used
device = torch_xla.device()

Transition = namedtuple(
    "Transition", ("state", "action", "next_state", "reward", "done")
)

BATCH_SIZE = 16
GAMMA = 0.9
EPS_START, EPS_END, EPS_DECAY = 0.9, 0.1, 40
TAU = 0.05
LR = 2e-3

random.seed(3)
torch.manual_seed(3)
torch_xla.manual_seed(3)


class Corridor:
    """Two buttons; the agent has to reach either end, the right one pays more."""

    n_actions, n_observations, size = 2, 3, 8

    def reset(self):
        self.x, self.clock = 3, 0
        return self.observe()

    def observe(self):
        return [self.x / self.size, 1 - self.x / self.size, self.clock / 20]

    def step(self, action):
        self.x += 1 if action else -1
        self.clock += 1
        done = self.x in (0, self.size) or self.clock == 20
        return self.observe(), {0: 0.2, self.size: 1.0}.get(self.x, -0.02), done


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


def make_net(env):
    return nn.Sequential(
        nn.Linear(env.n_observations, 32), nn.ReLU(), nn.Linear(32, env.n_actions)
    ).to(device)


env = Corridor()
policy_net = make_net(env)
target_net = make_net(env)
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=LR, amsgrad=True)
memory = ReplayMemory(500)
steps_done = 0


def select_action(state):
    global steps_done
    eps = EPS_END + (EPS_START - EPS_END) * math.exp(-1.0 * steps_done / EPS_DECAY)
    steps_done += 1
    if random.random() > eps:
        with torch.no_grad():
            return policy_net(state).max(1).indices.view(1, 1)
    return torch.tensor([[random.randrange(env.n_actions)]], device=device)


def optimize_model():
    if len(memory) < BATCH_SIZE:
        return None
    batch = Transition(*zip(*memory.sample(BATCH_SIZE)))
    state = torch.cat(batch.state)
    action = torch.cat(batch.action)
    next_state = torch.cat(batch.next_state)
    reward = torch.cat(batch.reward)
    alive = 1.0 - torch.cat(batch.done)
    q = policy_net(state).gather(1, action)
    with torch.no_grad():
        best = target_net(next_state).max(1).values
    expected = reward + GAMMA * alive * best
    loss = nn.functional.smooth_l1_loss(q, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    xm.reduce_gradients(optimizer)
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 1.0)
    optimizer.step()
    torch_xla.sync()
    return loss.item()


losses = []
for episode in range(8):
    state = torch.tensor([env.reset()], device=device)
    score, done = 0.0, False
    while not done:
        action = select_action(state)
        observation, reward, done = env.step(action.item())
        score += reward
        next_state = torch.tensor([observation], device=device)
        reward = torch.tensor([reward], device=device)
        flag = torch.tensor([float(done)], device=device)
        memory.push(state, action, next_state, reward, flag)
        state = next_state
        loss = optimize_model()
        if loss is not None:
            losses.append(loss)
        # soft update of the target network
        for t, p in zip(target_net.parameters(), policy_net.parameters()):
            t.data.mul_(1 - TAU).add_(p.data, alpha=TAU)
        torch_xla.sync()
    print(f"episode {episode}: score {score:.2f}")
print(f"{len(losses)} updates, first loss {losses[0]:.4f}, last {losses[-1]:.4f}")
