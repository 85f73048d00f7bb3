"""What torch's own code does without passing the stand-in lands where it would have on CUDA."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

STEPS = """
import torch
from torch import nn
kind = getattr(torch.optim, {kind!r})
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).to({device!r})
optimizer = kind(model.parameters(), lr=0.01{options})
for _ in range(4):
    optimizer.zero_grad()
    model(torch.ones(2, 4, device={device!r})).square().mean().backward()
    optimizer.step()
tensors = [(name, value) for state in optimizer.state.values() for name, value in state.items()
           if isinstance(value, torch.Tensor)]
found = {{name: str(value.device.type) for name, value in tensors}}
assert found == {expected}, found
assert all(p.is_cuda == ({device!r} == "cuda") for p in model.parameters())
"""
OPTIMIZERS = {
    "SGD": ("SGD", "", ()),
    "SGD with momentum": ("SGD", ", momentum=0.9", ("momentum_buffer",)),
    "Adam": ("Adam", ", amsgrad=True", ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")),
    "AdamW": ("AdamW", "", ("exp_avg", "exp_avg_sq")),
    "RMSprop": ("RMSprop", ", momentum=0.9", ("square_avg", "momentum_buffer")),
    "Adagrad": ("Adagrad", "", ("sum",)),
    "NAdam": ("NAdam", "", ("exp_avg", "exp_avg_sq")),
    "Adamax": ("Adamax", "", ("exp_avg", "exp_inf")),
}
OF_THE_HOST = ("step", "mu_product")  # scalars that torch keeps on the host wherever parameters are


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("kind", "options", "names"), OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_the_state_of_an_optimizer_is_where_its_parameters_are(succeed, kind, options, names, device):
    scalars = {"SGD": (), "NAdam": OF_THE_HOST}.get(kind, ("step",))
    expected = {**dict.fromkeys(names, device), **dict.fromkeys(scalars, "cpu")}
    succeed(STEPS.format(kind=kind, options=options, device=device, expected=expected))


def test_a_parameter_that_joins_later_has_its_state_there_too(succeed):
    succeed("""
        import torch
        first, late = (torch.nn.Parameter(torch.ones(2, device="cuda")) for _ in range(2))
        optimizer = torch.optim.SGD([first], lr=0.1, momentum=0.9)
        for step in range(4):
            if step == 2:
                optimizer.add_param_group({"params": [late]})
            (first.sum() + late.sum()).backward()
            optimizer.step()
        assert optimizer.state[late]["momentum_buffer"].is_cuda
        """)


def test_a_closure_runs_as_the_rest_of_the_script(succeed):
    succeed("""
        import torch
        weight = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        def closure():
            assert torch.ones(2, device="cuda").is_cuda
            loss = weight.sum()
            loss.backward()
            return loss
        optimizer.step(closure)
        """)


SAMPLES = {"a number": "1", "a slice": "slice(0, 2)", "numbers": "[0, 2]", "a mask": "x > 1"}


@pytest.mark.parametrize("index", SAMPLES.values(), ids=SAMPLES)
def test_samples_are_where_the_data_set_is(succeed, index):
    succeed(f"""
        import torch
        from torch.utils.data import TensorDataset
        x = torch.arange(4)
        mixed = TensorDataset(x, x.cuda())
        assert [part.is_cuda for part in mixed[{index}]] == [False, True]
        assert [part.device.type for part in mixed[{index}]] == ["cpu", "cuda"]
        """)


def test_what_is_written_into_stays_where_it_is(succeed):
    succeed("""
        import torch
        x = torch.zeros(3)
        g = x.cuda()
        assert not x.copy_(g).is_cuda and not x.add_(g).is_cuda
        assert not torch.add(g, g, out=x).is_cuda and not x.is_cuda
        assert not x.view_as(g).is_cuda and not x.expand_as(g).is_cuda
        assert g.copy_(x).is_cuda and torch.add(x, x, out=g).is_cuda and not x.is_cuda
        assert torch.where(x > 0, g, 0.0).is_cuda and torch.stack([g, g]).is_cuda
        assert [part.is_cuda for part in g.split(1)] == [True, True, True]
        """)


def test_a_batch_is_where_its_samples_are(succeed):
    succeed("""
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        x = torch.arange(4.0)
        for batch, same in DataLoader(TensorDataset(x, x.cuda()), batch_size=2):
            assert not batch.is_cuda and same.is_cuda
        """)


def test_a_mode_of_the_script_sees_what_it_would_see_without_the_stand_in(succeed):
    succeed("""
        import torch
        from torch.overrides import TorchFunctionMode
        from torch.utils.data import TensorDataset
        class Counting(TorchFunctionMode):
            seen = 0
            def __torch_function__(self, func, types, args=(), kwargs=None):
                Counting.seen += func is torch.Tensor.__getitem__
                return func(*args, **(kwargs or {}))
        data = TensorDataset(torch.arange(4))
        with Counting():
            data[1]
        assert Counting.seen == 1
        """)
