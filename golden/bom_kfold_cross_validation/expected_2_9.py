import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn, optim
from torch.utils.data import DataLoader, Subset, TensorDataset

cfg = dict(folds = 3, epochs = 2, bs = 8, lr = 1e-2,
           device = 'xla')

def make_model():
    return nn.Sequential(nn.Linear(7, 20), nn.ReLU(), nn.Linear(20, 2)).to(cfg['device'])

def fold_indices(n, k, seed = 0):
    order = np.random.RandomState(seed).permutation(n)
    parts = np.array_split(order, k)
    for i in range(k):
        rest = np.concatenate([p for j, p in enumerate(parts) if j != i])
        yield rest.tolist(), parts[i].tolist()

def run_fold(data, train_idx, val_idx):
    loaders = {'train': DataLoader(Subset(data, train_idx), cfg['bs'], shuffle = True),
               'val':   DataLoader(Subset(data, val_idx),   cfg['bs'])}
    model = make_model()
    opt   = optim.Adam(model.parameters(), lr = cfg['lr'])
    ce    = nn.CrossEntropyLoss()
    for epoch in range(cfg['epochs']):
        model.train()
        for xb, yb in pl.MpDeviceLoader(loaders['train'], torch_xla.device()):
            loss = ce(model(xb), yb)
            opt.zero_grad(); loss.backward(); xm.optimizer_step(opt)
    model.eval()
    good, losses = [], []
    with torch.no_grad():
        for xb, yb in loaders['val']:
            out = model(xb.to(cfg['device']))

            def log_step(yb, ce_value, out_argmax):
                nonlocal losses
                losses += [ce_value.item()] * len(yb)
                good.extend((out_argmax.cpu() == yb).tolist())

            xm.add_step_closure(log_step, args=(yb, ce(out, yb.to(cfg['device'])), out.argmax(1)))
            torch_xla.sync()
    return float(np.mean(good)), float(np.mean(losses))

torch.manual_seed(16)
torch_xla.manual_seed(16)
X = torch.randn(99, 7)
Y = (X[:, 0] + X[:, 1] ** 2 > 0.7).long()
data = TensorDataset(X, Y)
scores = []
for f, (tr, va) in enumerate(fold_indices(len(data), cfg['folds'])):
    acc, vloss = run_fold(data, tr, va)
    scores.append(acc)
    print(f'fold {f}: acc {acc:.3f} loss {vloss:.4f}')
print('mean %.3f (± %.3f)' % (np.mean(scores), np.std(scores)))
