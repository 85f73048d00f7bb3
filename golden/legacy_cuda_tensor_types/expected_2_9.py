from __future__ import print_function, division
import argparse

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torch.autograd import Variable

parser = argparse.ArgumentParser(description='old style training on whole tensors')
parser.add_argument('--nepoch', type=int, default=20)
parser.add_argument('--cuda', action='store_true', default=True, help='enables cuda')
parser.add_argument('--manualSeed', type=int, default=8, help='manual seed')
opt = parser.parse_args()

torch.manual_seed(opt.manualSeed)
if opt.cuda:
  torch_xla.manual_seed(opt.manualSeed)
if not opt.cuda:
  print('WARNING: You have a CUDA device, so you should probably run with --cuda')

cuda = True if opt.cuda else False
device = torch_xla.device() if cuda else torch.device("cpu")
Tensor = torch.FloatTensor
LongTensor = torch.LongTensor


class Net(nn.Module):
  def __init__(self):
    super(Net, self).__init__()
    self.l1 = nn.Linear(2, 16)
    self.l2 = nn.Linear(16, 2)

  def forward(self, x):
    return self.l2(torch.tanh(self.l1(x)))


# the four corners and a few points in between
corners = [[0, 0], [0, 1], [1, 0], [1, 1]]
points = Tensor(corners * 6).to(device)
jitter = torch.rand(24, 2).to(device, torch.float32)
inputs = Variable(points + 0.2 * jitter)
labels = Variable(LongTensor([0, 1, 1, 0] * 6).to(device))
weights = Tensor([1.0, 1.5]).to(device)

net = Net()
criterion = nn.CrossEntropyLoss(weight=weights)
if cuda:
  net.to(device)
  criterion.to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)

for epoch in range(opt.nepoch):
  optimizer.zero_grad()
  output = net(inputs)
  err = criterion(output, labels)
  err.backward()
  xm.optimizer_step(optimizer)
  torch_xla.sync()
  if epoch % 5 == 0:
    print('[%d/%d] Loss: %.4f' % (epoch, opt.nepoch, err.data.item()))

_, guess = output.data.max(1)
if cuda:
  guess = guess.cpu()
print('wrong:', [i for i, g in enumerate(guess.numpy()[:4]) if g != [0, 1, 1, 0][i]])
