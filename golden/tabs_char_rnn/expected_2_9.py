import math, random, time
import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
random.seed(6)
torch.manual_seed(6)
torch_xla.manual_seed(6)

ENDINGS = {'north': 'sen', 'south': 'ini', 'east': 'ova'}
categories = list(ENDINGS)
letters = 'abcdefghijklmnopqrstuvwxyz'


def random_example():
	category = random.randrange(len(categories))
	stem = ''.join(random.choice(letters) for _ in range(4))
	name = stem + ENDINGS[categories[category]]
	line = torch.zeros(len(name), 1, len(letters))
	for i, ch in enumerate(name):
		line[i][0][letters.index(ch)] = 1
	return category, name, torch.tensor([category], device=device), line.to(device)


class RNN(nn.Module):
	def __init__(self, hidden):
		super(RNN, self).__init__()
		self.hidden = hidden
		self.i2h = nn.Linear(len(letters) + hidden, hidden)
		self.h2o = nn.Linear(hidden, len(categories))

	def forward(self, x, h):
		h = torch.tanh(self.i2h(torch.cat((x, h), 1)))
		return torch.log_softmax(self.h2o(h), dim=1), h

	def init_hidden(self):
		return torch.zeros(1, self.hidden, device=device)


rnn = RNN(24).to(device)
criterion = nn.NLLLoss()
learning_rate = 0.05


def train(category_tensor, line):
	hidden = rnn.init_hidden()
	rnn.zero_grad()
	for i in range(line.size(0)):
		output, hidden = rnn(line[i], hidden)
	loss = criterion(output, category_tensor)
	loss.backward()
	# plain gradient descent, no optimizer object
	for p in rnn.parameters():
		p.data.add_(p.grad.data, alpha=-learning_rate)
	torch_xla.sync()
	return output, loss.item()


def time_since(since):
	s = time.time() - since
	return '%dm %ds' % (math.floor(s / 60), s % 60)


start = time.time()
current_loss, all_losses = 0, []
for it in range(1, 33):
	category, name, category_tensor, line = random_example()
	output, loss = train(category_tensor, line)
	torch_xla.sync()
	current_loss += loss
	if it % 8 == 0:
		guess = output.topk(1)[1].item()
		mark = 'ok' if guess == category else 'wrong (%s)' % categories[category]
		print('%d %.4f %s / %s %s' % (it, loss, name, categories[guess], mark))
		all_losses.append(current_loss / 8)
		current_loss = 0
print([round(v, 4) for v in all_losses])
assert time_since(start).endswith('s')
