"""The same noise on both sides: each expression below is evaluated on the CPU and on XLA, in one
sequence of draws."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.slow

EXPRESSIONS = {
    "dropout": "F.dropout(x, 0.3)",
    "dropout of a strided tensor": "F.dropout(x.t(), 0.3)",
    "dropout of a new tensor, viewed": "F.dropout(torch.ones(4, 6, device=device), 0.3)[:, 1:].t()",
    "dropout in half precision": "F.dropout(x.bfloat16(), 0.3).float()",
    "dropout, fused form": "torch.native_dropout(x, 0.3, True)[0]",
    "dropout of channels": "F.dropout2d(x.reshape(1, 6, 5, 1), 0.5)",
    "alpha dropout": "F.alpha_dropout(x, 0.5, True)",
    "alpha dropout of channels": "F.feature_alpha_dropout(x.reshape(1, 6, 5, 1), 0.5, True)",
    "gradient of dropout": "gradient(lambda a: F.dropout(a, 0.4).t()[1:])",
    "gradient of fused dropout": "gradient(lambda a: torch.native_dropout(a, 0.4, True)[0])",
    "attention": "F.scaled_dot_product_attention(q, q, q, dropout_p=0.3)",
    "causal attention": "F.scaled_dot_product_attention(q, q, q, dropout_p=0.3, is_causal=True)",
    "attention of permuted views": "attend(q.transpose(1, 2))",
    "attention module": "nn.MultiheadAttention(6, 2, dropout=0.4).to(device)(x, x, x)[0]",
    "transformer layer": "nn.TransformerEncoderLayer(6, 2, 8, 0.3).to(device)(x[None])",
    "recurrent layers": "nn.LSTM(6, 4, 2, dropout=0.5).to(device)(x)[0]",
    "rand": "torch.rand(3, 4, device=device)",
    "rand, viewed": "torch.rand(4, 5, device=device)[1:, ::2].t()",
    "rand_like in half precision": "torch.rand_like(x.half()).float()",
    "randn": "torch.randn(7, device=device)",
    "randn in double precision": "torch.randn(7, device=device, dtype=torch.float64)",
    "randn_like": "torch.randn_like(x)",
    "randn_like of a strided tensor": "torch.randn_like(x.t())",
    "randint": "torch.randint(2, 9, (3, 3), device=device)",
    "randint_like": "torch.randint_like(x, 5)",
    "randperm": "torch.randperm(9, device=device)",
    "randperm, viewed": "torch.randperm(8, device=device).view(2, 4)[:, 1:]",
    "normal_ of a strided tensor": "torch.empty(3, 4, device=device).t().normal_(1, 2)",
    "uniform_ of a view": "fill_middle(lambda view: view.uniform_(-1, 1))",
    "random_ of a view": "fill_middle(lambda view: view.random_(10))",
    "exponential_": "torch.empty(3, 4, device=device).exponential_(2)",
    "bernoulli": "torch.bernoulli(x.sigmoid())",
    "bernoulli with one chance": "torch.bernoulli(x, 0.4)",
    "bernoulli_": "torch.empty(3, 4, device=device).t().bernoulli_(0.5)",
    "bernoulli_ of booleans": "torch.empty(3, 4, device=device, dtype=torch.bool).bernoulli_(0.5)",
    "bernoulli_ by chances": "torch.empty(5, 6, device=device).bernoulli_(x.sigmoid())",
    "normal of tensors": "torch.normal(x, x.abs() + 1)",
    "normal of a tensor and a number": "torch.normal(x, 2.0) + torch.normal(0.5, x.abs() + 1)",
    "normal of numbers": "torch.normal(0.5, 1.0, (3,), device=device)",
    "multinomial": "torch.multinomial(x.softmax(-1), 3)",
    "multinomial of one row": "torch.multinomial(x[0].softmax(-1), 2)",
    "multinomial with replacement": "torch.multinomial(x.softmax(-1), 4, replacement=True)",
    "rrelu": "F.rrelu(x, training=True)",
    "rrelu in place": "F.rrelu(x.clone(), training=True, inplace=True)",
    "rrelu in evaluation": "F.rrelu(x)",
    "gradient of rrelu": "gradient(lambda a: F.rrelu(a, training=True))",
    "gumbel softmax": "F.gumbel_softmax(x)",
    "normal distribution": "torch.distributions.Normal(x, x.abs() + 0.1).rsample()",
    "categorical distribution": "torch.distributions.Categorical(logits=x).sample()",
    "gamma distribution": "torch.distributions.Gamma(x.abs() + 1, x.abs() + 1).sample()",
    "poisson": "torch.poisson(x.abs())",
    "cauchy_": "torch.empty(3, 4, device=device).t().cauchy_()",
    "a generator of its own": "torch.randn(4, generator=own)",
    "draws on the host": "torch.rand(3)",
}

SEQUENCE = """
import json
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
{device}
EXPRESSIONS = json.loads({expressions!r})

def gradient(function):
    a = x.clone().requires_grad_()
    function(a).sum().backward()
    return a.grad

def attend(v):
    return F.scaled_dot_product_attention(v, v, v, dropout_p=0.3).transpose(1, 2)

def fill_middle(fill):
    whole = torch.zeros(4, 4, device=device)
    fill(whole[:, 1:3])
    return whole

torch.manual_seed(7)
own = torch.Generator().manual_seed(3)
x = torch.randn(5, 6).to(device)
q = torch.randn(2, 3, 7, 4).to(device)
drawn = {{}}
for name, expression in EXPRESSIONS.items():
    drawn[name] = eval(expression).detach().cpu().numpy()
np.savez("drawn.npz", **drawn)
"""

DEVICES = {
    "native": 'device = torch.device("cuda")',
    "xla": "import torch_xla\ndevice = torch_xla.device()",
}


def sequence(side):
    import json

    return SEQUENCE.format(device=DEVICES[side], expressions=json.dumps(EXPRESSIONS))


@pytest.fixture(scope="module")
def drawn(runner, tmp_path_factory):
    values = {}
    for side in DEVICES:
        workdir = tmp_path_factory.mktemp(side)
        script = workdir / "sequence.py"
        script.write_text(sequence(side))
        trace = runner.record(script, side, workdir)
        assert trace.failure is None, str(trace.failure)
        with np.load(workdir / "drawn.npz") as stored:
            values[side] = dict(stored)
    return values


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_both_sides_draw_the_same(drawn, name):
    native, xla = drawn["native"][name], drawn["xla"][name]
    assert native.dtype == xla.dtype
    np.testing.assert_allclose(xla, native, rtol=2e-5, atol=2e-6)


def test_the_noise_is_noise(drawn):
    native = drawn["native"]
    assert 0 < (native["dropout"] == 0).mean() < 1
    assert sorted(native["randperm"]) == list(range(9))
    assert len(np.unique(native["rand"])) == native["rand"].size
    assert not np.array_equal(native["bernoulli_"][:3, :3], native["bernoulli_"][:3, :3].T)


def test_every_random_kernel_of_torch_xla_is_replaced(succeed):
    trace = succeed(
        """
        import torch
        import torch_xla
        from xla_migrate.verify.host_rng import HostRandomness

        for name in torch._C._dispatch_get_all_op_names():
            has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key(name, "XLA")
            if not name.startswith("aten::") or not has_kernel:
                continue
            short = name.removeprefix("aten::")
            base, _, overload = short.partition(".")
            operator = getattr(getattr(torch.ops.aten, base), overload or "default")
            written_to = any(argument.is_out for argument in operator._schema.arguments)
            if torch.Tag.nondeterministic_seeded in operator.tags and not written_to:
                print(short, short in HostRandomness().kernels("XLA"))
        """,
        "xla",
    )
    answers = dict(line.rsplit(" ", 1) for line in trace.stdout.splitlines())
    assert len(answers) > 10
    assert [name for name, replaced in answers.items() if replaced != "True"] == []


def test_noise_from_the_host_costs_no_execution(succeed):
    trace = succeed(
        """
        import torch
        import torch_xla
        import torch_xla.core.xla_model as xm
        import torch_xla.debug.metrics as met

        device = torch_xla.device()
        weight = torch.ones(8, 8, device=device, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2).to(device)
        for step in range(10):
            noise = torch.randn(4, 3, 8, device=device)
            picked = torch.multinomial(torch.ones(4, 5, device=device), 2)
            loss = (layer(noise @ weight) * torch.rand_like(noise)).mean()
            (loss + picked.sum() * weight.mean()).backward()
            optimizer.step()
            optimizer.zero_grad()
            torch_xla.sync()
        xm.wait_device_ops()
        print(met.metric_data("CompileTime")[0], met.metric_data("ExecuteTime")[0])
        """,
        "xla",
    )
    compiles, executions = map(int, trace.stdout.split())
    assert executions == 10
    assert compiles <= 2


def test_seeds_and_states_of_the_xla_generator_do_not_disturb(succeed):
    code = """
        import numpy as np
        import torch
        {imports}
        torch.manual_seed(5)
        a = torch.rand(3, device=device)
        {seeding}
        b = torch.rand(3, device=device)
        state = torch.get_rng_state()
        c = torch.rand(3, device=device)
        torch.set_rng_state(state)
        assert torch.equal(c.cpu(), torch.rand(3, device=device).cpu())
        print(a.tolist(), b.tolist())
        """
    native = code.format(imports=DEVICES["native"], seeding="torch.cuda.manual_seed_all(9)")
    xla_imports = "import torch_xla, torch_xla.core.xla_model as xm; device = torch_xla.device()"
    xla_seeding = "torch_xla.manual_seed(9); xm.set_rng_state(4, device)"
    migrated = code.format(imports=xla_imports, seeding=xla_seeding)
    assert succeed(native, "native").stdout == succeed(migrated, "xla").stdout
