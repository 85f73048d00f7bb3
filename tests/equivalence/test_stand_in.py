"""Scripts that were written for CUDA, run by the stand-in on a machine without it."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.slow

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
x = torch.randn(4, 6)
g = x.cuda()
"""


def test_an_assertion_that_does_not_hold_is_reported_with_its_line(record):
    trace = record("def check():\n    assert 1 + 1 == 3, 'sum'\n\ncheck()\n", "native")
    assert trace.failure is not None
    assert (trace.failure.kind, trace.failure.message) == ("AssertionError", "sum")
    assert trace.failure.frames[-1].endswith("script.py:2 in check: assert 1 + 1 == 3, 'sum'")


def test_a_call_that_fails_below_the_hooks_ends_at_the_line_of_the_script(record):
    trace = record("""
        import torch
        model = torch.nn.Linear(2, 3).cuda()
        torch.optim.SGD(model.parameters(), lr=0.1)

        def train():
            return model(torch.ones(2, 4, device="cuda"))

        train()
        """, "native")  # fmt: skip
    assert trace.failure is not None
    assert not [frame for frame in trace.failure.frames if "xla_migrate" in frame]
    wanted = 'in train: return model(torch.ones(2, 4, device="cuda"))'
    assert [frame for frame in trace.failure.frames if wanted in frame]


def test_a_model_that_is_traced_has_the_same_graph_at_each_check(record):
    trace = record("""
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(3, 2, 3)

            def forward(self, x):
                x = self.conv(x)
                return x.view(x.size(0), -1)

        x = torch.ones(1, 3, 8, 8).cuda()
        net = Net().cuda()
        torch.optim.SGD(net.parameters(), lr=0.1)
        traced = torch.jit.trace(net, x)
        assert torch.equal(traced(x), net(x))
        """, "native")  # fmt: skip
    assert (trace.failure, trace.evaluations) == (None, [])


def test_the_norm_of_a_large_parameter_is_exact_to_six_digits(record):
    trace = record("""
        import torch
        model = torch.nn.Embedding(40_000, 100).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        model(torch.tensor([1, 2]).cuda()).sum().backward()
        optimizer.step()
        """, "native")  # fmt: skip
    whole = np.linalg.norm(trace.parameters[0][0].astype(np.float64))
    assert trace.steps[0].norms[0] == pytest.approx(whole, rel=1e-6)


def test_tensors_of_the_cpu_stay_what_they_are(succeed):
    succeed("""
        import torch
        x = torch.zeros(3)
        assert x.device.type == "cpu" and x.is_cpu and not x.is_cuda and x.get_device() == -1
        assert x.to("cpu") is x and x.cpu() is x and x.type() == "torch.FloatTensor"
        assert not (x + 1).is_cuda and not torch.zeros_like(x).is_cuda
        assert torch.device("meta") == torch.zeros(2, device="meta").device
        """)


def test_what_is_computed_again_is_compared_with_what_was_saved(succeed):
    succeed("""
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint
        block = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).cuda()
        x = torch.ones(2, 4).cuda()
        checkpoint(block, x, use_reentrant=False).sum().backward()
        assert block[0].weight.grad.abs().sum() > 0
        """)


SPELLINGS = {
    "cuda method": "x.cuda()",
    "cuda method with index": "x.cuda(0, non_blocking=True)",
    "string": "x.to('cuda')",
    "string with index": "x.to('cuda:0', non_blocking=True)",
    "device object": "x.to(torch.device('cuda', 0))",
    "device keyword": "x.to(device='cuda', dtype=torch.float64)",
    "index": "x.to(0)",
    "other tensor": "x.to(g)",
    "type_as": "x.type_as(g)",
    "legacy type name": "x.type('torch.cuda.LongTensor')",
    "legacy type": "x.type(torch.cuda.HalfTensor)",
    "legacy constructor": "torch.cuda.FloatTensor([[1.0, 2.0]])",
    "factory": "torch.zeros(3, device='cuda')",
    "factory with index": "torch.ones(3, device=0)",
    "factory, pinned": "torch.empty(3, pin_memory=True).to('cuda')",
    "like": "torch.randn_like(g)",
    "like with device": "torch.zeros_like(x, device='cuda')",
    "new": "g.new_zeros(3)",
    "as_tensor": "torch.as_tensor(x, device='cuda')",
    "as_tensor of numpy": "torch.as_tensor(x.numpy(), device='cuda')",
    "operator": "g @ g.t() + 1",
    "view": "g[1:, ::2].t()",
    "of a list": "torch.cat([g, g])",
    "of a tuple": "g.max(1).values",
    "pinned": "x.pin_memory().cuda(non_blocking=True)",
}


@pytest.mark.parametrize("expression", SPELLINGS.values(), ids=SPELLINGS)
def test_a_tensor_moved_or_made_there_reports_cuda(succeed, expression):
    succeed(f"""{HEAD}
t = {expression}
assert t.is_cuda and not t.is_cpu and t.device == torch.device("cuda:0") and t.get_device() == 0
assert t.type().startswith("torch.cuda.") and t.cuda() is t
assert not t.cpu().is_cuda and not t.to("cpu").is_cuda
""")


def test_a_move_copies_and_a_move_to_where_it_is_does_not(succeed):
    succeed(f"""{HEAD}
for moved in (g, x.to("cuda"), torch.as_tensor(x, device="cuda"), x.type_as(g)):
    moved.zero_()
assert x.abs().sum() > 0
back = g.cpu()
g.add_(1)
assert back.sum() == 0 and g.to("cuda:0") is g
x.copy_(g)
assert not x.is_cuda
""")


def test_a_module_moves_in_place_with_its_buffers_and_gradients(succeed):
    succeed(f"""{HEAD}
model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
before = list(model.parameters())
model.to("cuda")
assert all(a is b and a.is_cuda for a, b in zip(model.parameters(), before))
assert all(buffer.is_cuda for buffer in model.buffers())
old = model[0].weight.detach().clone()
model(g).square().sum().backward()
optimizer.step()
assert model[0].weight.grad.is_cuda and not torch.equal(old, model[0].weight)
import copy
assert copy.deepcopy(model)[0].weight.is_cuda and not model.cpu()[0].weight.is_cuda
""")


def test_the_default_device_in_its_three_forms(succeed):
    succeed("""
        import torch
        with torch.device("cuda"):
            assert torch.zeros(2).is_cuda and torch.zeros(2, device="cpu").is_cpu
        assert not torch.zeros(2).is_cuda
        torch.set_default_device("cuda")
        assert torch.zeros(2).is_cuda and torch.get_default_device().type == "cuda"
        torch.set_default_device(None)
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        assert torch.rand(2).is_cuda
        torch.set_default_tensor_type("torch.FloatTensor")
        assert not torch.rand(2).is_cuda
        """)


def test_legacy_types_are_types(succeed):
    succeed(f"""{HEAD}
assert isinstance(g, torch.cuda.FloatTensor) and not isinstance(x, torch.cuda.FloatTensor)
assert not isinstance(g, torch.cuda.LongTensor) and torch.cuda.FloatTensor(2, 3).shape == (2, 3)
assert not g.type(torch.FloatTensor).is_cuda and g.type(torch.float64).is_cuda
""")


def test_a_checkpoint_comes_back_to_the_device_it_was_saved_from(succeed):
    trace = succeed(f"""{HEAD}
torch.save({{"g": g, "x": x}}, "both.pt")
plain = torch.load("both.pt")
assert plain["g"].is_cuda and not plain["x"].is_cuda
assert not torch.load("both.pt", map_location="cpu")["g"].is_cuda
for where in ("cuda", torch.device("cuda:0"), lambda storage, location: storage.cuda(0)):
    assert torch.load("both.pt", map_location=where)["x"].is_cuda
assert not torch.load("both.pt", map_location=lambda storage, location: storage)["g"].is_cuda
""")
    assert list(trace.files) == ["both.pt"]


AUTOCASTS = {
    "torch.autocast": "torch.autocast('cuda')",
    "float16": "torch.autocast('cuda', dtype=torch.float16)",
    "keyword": "torch.autocast(device_type='cuda', dtype=torch.bfloat16)",
    "torch.cuda.amp": "torch.cuda.amp.autocast()",
    "torch.amp": "torch.amp.autocast('cuda', enabled=True)",
}


@pytest.mark.parametrize("autocast", AUTOCASTS.values(), ids=AUTOCASTS)
def test_autocast_computes_in_bfloat16(succeed, autocast):
    succeed(f"""{HEAD}
with {autocast}:
    assert (g @ g.t()).dtype == torch.bfloat16
    assert torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
    assert torch.get_autocast_dtype("cuda") == torch.bfloat16

@{autocast}
def product(a):
    return a @ a.t()

assert product(g).dtype == torch.bfloat16 and (g @ g.t()).dtype == torch.float32
""")


def test_autocast_that_is_switched_off_computes_in_float32(succeed):
    succeed(f"""{HEAD}
for context in (torch.cuda.amp.autocast(enabled=False), torch.autocast("cuda", enabled=False)):
    with context:
        assert (g @ g.t()).dtype == torch.float32 and not torch.is_autocast_enabled()
""")


@pytest.mark.parametrize("scaler", ["torch.amp.GradScaler('cuda')", "torch.cuda.amp.GradScaler()"])
def test_a_scaler_scales_and_its_trace_shows_the_loss_before_it(succeed, scaler):
    trace = succeed(f"""{HEAD}
weight = torch.ones(6, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = {scaler}
loss = (g.abs() @ weight).mean()
scaled = scaler.scale(loss)
assert scaled.item() == loss.item() * 65536
scaled.backward()
large = weight.grad.norm().item()
scaler.unscale_(optimizer)
assert abs(large / weight.grad.norm().item() - 65536) < 1
scaler.step(optimizer)
weight.grad.fill_(float("inf"))
scaler.update()
assert scaler.get_scale() == 65536
print(loss.item())
""")
    assert trace.losses == [pytest.approx(float(trace.stdout))]
    assert len(trace.steps) == 1


def test_a_scaler_skips_a_step_whose_gradients_overflow(succeed):
    trace = succeed("""
        import torch
        weight = torch.ones(3, device="cuda", requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        scaler.scale(weight.sum() * float("inf")).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 32768 and weight.tolist() == [1, 1, 1]
        """)
    assert trace.steps == []


def test_custom_functions_find_the_device_in_the_backward_pass_too(succeed):
    succeed("""
        import torch

        class Shift(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cuda")
            def forward(ctx, a):
                return a + torch.ones(1, device="cuda")

            @staticmethod
            @torch.amp.custom_bwd(device_type="cuda")
            def backward(ctx, gradient):
                return gradient * torch.full((1,), 3.0, device="cuda")

        a = torch.ones(2, device="cuda", requires_grad=True)
        Shift.apply(a).sum().backward()
        assert a.grad.tolist() == [3, 3] and a.grad.is_cuda
        """)


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpoints_repeat_their_dropout(succeed, reentrant):
    succeed(f"""{HEAD}
from torch.utils.checkpoint import checkpoint
a = g.clone().requires_grad_()
out = checkpoint(lambda t: F.dropout(t * 2, 0.5), a, use_reentrant={reentrant})
out.sum().backward()
assert torch.equal(a.grad != 0, out != 0)
""")


UTILITIES = {
    "queries": """
assert torch.cuda.is_available() and torch.cuda.device_count() == 1
assert torch.cuda.current_device() == 0
assert torch.cuda.get_device_properties(0).total_memory > 0 and torch.cuda.get_device_name(0)
assert torch.cuda.get_device_capability() >= (7, 0) and torch.cuda.is_bf16_supported()
""",
    "memory": """
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()
assert torch.cuda.memory_allocated() + torch.cuda.max_memory_allocated("cuda:0") >= 0
assert torch.cuda.mem_get_info()[1] > 0 and isinstance(torch.cuda.memory_summary(), str)
""",
    "seeds": """
torch.cuda.manual_seed(1)
torch.cuda.manual_seed_all(1)
torch.cuda.set_rng_state(torch.cuda.get_rng_state())
torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
with torch.random.fork_rng():
    torch.rand(3, device="cuda")
torch.rand(3, device="cuda", generator=torch.Generator(device="cuda").manual_seed(3))
""",
    "events": """
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
end.record()
end.synchronize()
torch.cuda.synchronize()
assert start.elapsed_time(end) >= 0
""",
    "streams": """
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side), torch.cuda.device(0):
    moved = x.cuda(non_blocking=True)
moved.record_stream(torch.cuda.current_stream())
torch.cuda.set_device(0)
""",
    "nvtx": """
torch.cuda.nvtx.range_push("step")
torch.cuda.nvtx.range_pop()
with torch.cuda.nvtx.range("step"):
    pass
""",
    "accelerator": """
assert torch.accelerator.is_available() and torch.accelerator.device_count() == 1
device = torch.accelerator.current_accelerator()
assert device.type == "cuda" and x.to(device).is_cuda
torch.accelerator.synchronize()
""",
    "backends": """
torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = True
with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
    F.scaled_dot_product_attention(g[None], g[None], g[None], dropout_p=0.5)
""",
    "recurrent": "assert nn.LSTM(6, 3, 2, dropout=0.2).cuda()(g[None])[0].is_cuda",
    "transformer": """
layer = nn.TransformerEncoderLayer(6, 2, batch_first=True).cuda()
layer(g[None])
layer.eval()
with torch.no_grad():
    assert layer(g[None]).is_cuda
""",
    "data parallel": """
model = nn.DataParallel(nn.Linear(6, 2)).cuda()
assert model(g).is_cuda and list(model.state_dict()) == ["module.weight", "module.bias"]
""",
    "compile": """
model = nn.Linear(6, 2).cuda()
assert torch.compile(model, mode="reduce-overhead") is model
model.compile()
@torch.compile(dynamic=True)
def twice(a):
    return a * 2
assert twice(g).is_cuda
""",
    "fused optimizers": """
model = nn.Linear(6, 2).cuda()
for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
    optimizer = kind(model.parameters(), lr=0.1, fused=True)
    model(g).sum().backward()
    optimizer.step()
    assert not optimizer.defaults["fused"]
""",
    "pinned loader with workers": """
from torch.utils.data import DataLoader, TensorDataset
for (batch,) in DataLoader(TensorDataset(x), 2, pin_memory=True, shuffle=True, num_workers=2):
    assert not batch.is_cuda and batch.cuda(non_blocking=True).is_cuda
""",
}


@pytest.mark.parametrize("code", UTILITIES.values(), ids=UTILITIES)
def test_what_else_scripts_ask_of_cuda(succeed, code):
    succeed(HEAD + code)


def test_a_process_group_may_end_before_the_model_that_it_reduces(succeed):
    """The model is its last owner, and the group's thread is still busy with what nobody waits for."""
    succeed(
        """
        import os
        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel as DDP

        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group("gloo", f"file://{os.path.abspath('meeting')}", rank=0, world_size=1)
        model = DDP(torch.nn.Linear(2, 1).cuda())
        large = torch.ones(50_000_000).cuda()
        dist.all_gather([torch.empty_like(large)], large, async_op=True)
        dist.destroy_process_group()
        del model
        """,
        timeout=30.0,
    )


def test_a_script_that_looks_at_its_terminal_finds_one_at_which_nobody_writes(succeed):
    succeed("""
        import os, sys
        lines, columns = os.popen("stty size", "r").read().split()
        assert (lines, columns) == ("24", "80")
        assert os.get_terminal_size(0).columns == 80
        assert sys.stdin.read() == "" and os.popen("cat").read() == ""
        try:
            input("go on? ")
        except EOFError:
            pass
        else:
            raise AssertionError("somebody answered")
        """)
