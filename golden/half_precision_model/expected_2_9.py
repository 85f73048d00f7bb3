import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

use_half   = True
device = torch_xla.device()
dtype = torch.float16 if use_half else torch.float32


def network_to_half(net):
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm1d):
            layer.float()
        else:
            for p in layer.parameters(recurse=False):
                p.data = p.data.half()
    return net


def prep_param_lists(model):
    model_params = [p for p in model.parameters() if p.requires_grad]
    master_params = [p.clone().float().detach() for p in model_params]
    for p in master_params:
        p.requires_grad = True
    return model_params, master_params


torch.manual_seed(0); x, y = torch.randn(256, 16), \
    torch.randint(0, 4, (256,))
torch_xla.manual_seed(0)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
loader = pl.MpDeviceLoader(loader, device)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4)).to(device)
if use_half:
    model = network_to_half(model)
model_params, master_params = prep_param_lists(model)
optimizer = torch.optim.SGD(master_params,
                            lr=0.05, momentum=0.9)
loss_scale = 128.   # static

for epoch in range(2):
    for x, y in loader:
        x = x.to(dtype)
        y = y.to(torch.int64)
        loss = nn.functional.cross_entropy(model(x).float(), y) * loss_scale
        model.zero_grad()
        loss.backward()
        for master, p in zip(master_params, model_params):
            if master.grad is None:
                master.grad = torch.empty_like(master)
            master.grad.data.copy_(p.grad.data).div_(loss_scale)
        xm.reduce_gradients(optimizer)
        optimizer.step()
        for master, p in zip(master_params, model_params):
            p.data.copy_(master.data)
    print(epoch, loss.item() / loss_scale)
