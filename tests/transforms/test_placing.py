"""Which expression is "the device" at a place, and whether it may be the CPU."""

from __future__ import annotations

import pytest
from transforms.helpers import context_of, expression, migrate

from xla_transforms.findings import Rule
from xla_transforms.naming import Use, Uses
from xla_transforms.placing import device_at, may_be_cpu, xla_test

RULE = Rule("XLA999", "test", "Test.", "Test.")


def placed(code: str, text: str = "here") -> tuple[str, bool, str | None]:
    """Device, whether it may be the CPU, and the test for XLA where ``text`` is written."""
    context = context_of("import argparse\nimport torch\n" + code)
    node = expression(context, text)
    change = context.plan.change(RULE, node, "test")
    return device_at(context, node, change), may_be_cpu(context, node), xla_test(context, node)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("here\n", ("torch_xla.device()", False, None)),
        ('device = torch.device("cuda")\nhere\n', ("device", False, 'device.type == "xla"')),
        ('here\ndevice = torch.device("cuda")\n', ("torch_xla.device()", False, None)),
        ('device = torch.device("cpu")\nhere\n', ("torch_xla.device()", False, None)),
        ('dev = "cuda" if a else "cpu"\nx.to(dev)\nhere\n', ("dev", True, 'dev == "xla"')),
        (
            'device = torch.device("cuda" if a and torch.cuda.is_available() else "cpu")\nhere\n',
            ("device", True, 'device.type == "xla"'),
        ),
        (
            'if a:\n    device = torch.device("cuda")\nelse:\n    device = torch.device("cpu")\nhere\n',
            ("device", True, 'device.type == "xla"'),
        ),
        (
            'device = torch.device("cuda")\ndef f(x):\n    return x.to(device)\ndef g():\n    here\n',
            ("device", False, 'device.type == "xla"'),
        ),
        (
            "def f(x, device):\n    x.to(device)\n    here\n",
            ("device", False, 'device.type == "xla"'),
        ),
        (
            'class T:\n    def __init__(self):\n        self.device = torch.device("cuda")\n'
            "    def f(self):\n        here\n",
            ("self.device", False, 'self.device.type == "xla"'),
        ),
        (
            'class T:\n    def __init__(self):\n        here\n        self.device = torch.device("cuda")\n',
            ("torch_xla.device()", False, None),
        ),
        (
            'p = argparse.ArgumentParser()\np.add_argument("--device", default="cuda")\n'
            "args = p.parse_args()\nmodel.to(args.device)\nhere\n",
            ("args.device", True, 'args.device == "xla"'),
        ),
        ("if use_cuda:\n    model.cuda()\nhere\n", ("torch_xla.device()", True, None)),
        ("use_cuda = a\nif use_cuda:\n    model.cuda()\nhere\n", ("torch_xla.device()", True, "use_cuda")),
        (
            "cpu = a\nif cpu:\n    pass\nelse:\n    model.cuda()\nhere\n",
            ("torch_xla.device()", True, "not cpu"),
        ),
        ("gpu = a\nif gpu is not None:\n    model.cuda(gpu)\nhere\n", ("torch_xla.device()", False, None)),
        ("model.cuda()\nloss.cuda()\nhere\n", ("device", False, None)),
        ("model.cuda()\nloss.cuda()\ndef f():\n    here\n", ("device", False, None)),
        ("model.cuda()\nloss.cuda()\ndef f(device=0):\n    here\n", ("torch_xla.device()", False, None)),
        ("device = 3\nmodel.cuda(device)\nloss.cuda()\nhere\n", ("torch_xla.device()", False, None)),
    ],
)
def test_device_at_a_place(code: str, expected: tuple[str, bool, str | None]) -> None:
    assert placed(code) == expected


def test_new_variable_comes_before_the_first_call_that_needs_it() -> None:
    code = """\
    import torch


    def score(x):
        return net(x.cuda())


    net = Net()
    print(score(torch.zeros(2)))
    net.cuda()
    """
    lines = migrate(code, "device", "device_moves").code.splitlines()
    assert lines.index("device = torch_xla.device()") < lines.index("print(score(torch.zeros(2)))")


@pytest.mark.parametrize(
    ("code", "uses"),
    [
        ('x.to("cuda")\n', {Use.PLACE}),
        ('d = "cuda"\nx.to(d)\n', {Use.PLACE}),
        ('d = "cuda"\ntorch.device(d)\n', {Use.EITHER}),
        ('d = "cuda"\nd = d.upper()\n', {Use.TEXT}),
        ('d, n = "cuda", 1\nx.to(d)\n', {Use.PLACE}),
        ('def f(d):\n    x.to(d)\nf("cuda")\n', {Use.PLACE}),
        ('def f(d):\n    return d == "cpu"\nf("cuda")\n', {Use.TEXT}),
        ('def f():\n    return "cuda"\nx.to(f())\n', {Use.PLACE}),
        (
            'class T:\n    def a(self):\n        self.d = "cuda"\n    def f(self):\n        x.to(self.d)\n',
            {Use.PLACE},
        ),
        ('c = {"d": "cuda"}\nx.to(c["d"])\n', {Use.PLACE}),
        ('c = dict(d="cuda")\nx.to(c["d"])\n', {Use.PLACE}),
        ('c = {"cuda": 1}\n', {Use.OTHER}),
        ('torch.autocast("cuda")\n', {Use.OTHER}),
        ('d = "cuda"\ntorch.load(p, map_location=d)\n', {Use.LOADED}),
        ('unknown("cuda")\n', {Use.UNKNOWN}),
        ('d = "cuda"\n', set()),
    ],
)
def test_where_a_name_goes(code: str, uses: set[Use]) -> None:
    context = context_of("import torch\n" + code)
    assert Uses(context.roles).of(expression(context, '"cuda"')) == uses
