"""Autocast in all its spellings."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, findings, migrate

PASSES = ("autocast", "autocast_functions")


def test_autocast_for_the_cpu_stays() -> None:
    check_noop(
        """\
        import torch

        device = torch.device("cuda")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = model(x)
        """,
        *PASSES,
    )


def test_autocast_that_is_for_xla_already_stays() -> None:
    check_noop(
        """\
        import torch

        device = torch.device("cuda")
        with torch.autocast("xla", dtype=torch.bfloat16, enabled=amp):
            y = model(x)
        """,
        *PASSES,
    )


def test_a_device_type_from_a_variable_stays() -> None:
    check_noop(
        """\
        import torch

        device = torch.device("cuda")
        with torch.autocast(device.type):
            y = model(x)
        """,
        *PASSES,
    )


@pytest.mark.parametrize(
    ("native", "migrated"),
    [
        ("torch.cuda.amp.autocast()", 'torch.autocast("xla", dtype=torch.bfloat16)'),
        ("torch.cuda.amp.autocast(amp)", 'torch.autocast("xla", dtype=torch.bfloat16, enabled=amp)'),
        ("torch.cuda.amp.autocast(enabled=amp)", 'torch.autocast("xla", dtype=torch.bfloat16, enabled=amp)'),
        (
            "torch.cuda.amp.autocast(amp, torch.bfloat16, False)",
            'torch.autocast("xla", enabled=amp, dtype=torch.bfloat16, cache_enabled=False)',
        ),
        ('torch.autocast("cuda")', 'torch.autocast("xla", dtype=torch.bfloat16)'),
        (
            'torch.amp.autocast(device_type="cuda", enabled=amp)',
            'torch.amp.autocast(device_type="xla", dtype=torch.bfloat16, enabled=amp)',
        ),
        ('torch.autocast("cuda", torch.bfloat16)', 'torch.autocast("xla", torch.bfloat16)'),
        ('torch.autocast("cuda", dtype=torch.half)', 'torch.autocast("xla", dtype=torch.bfloat16)'),
    ],
)
def test_a_context_manager(native: str, migrated: str) -> None:
    head = "import torch\n\n\ndef run(x, amp):\n"
    check_transformed(
        f"{head}    with {native}:\n        return x @ x\n",
        f"{head}    with {migrated}:\n        return x @ x\n",
        *PASSES,
    )


def test_a_decorator_and_an_alias() -> None:
    check_transformed(
        """\
        import torch
        from torch.cuda.amp import autocast as ac


        @ac()
        def forward(x):
            return x @ x
        """,
        """\
        import torch


        @torch.autocast("xla", dtype=torch.bfloat16)
        def forward(x):
            return x @ x
        """,
        *PASSES,
        rules={"XLA301"},
    )


def test_a_class_held_in_a_variable_becomes_a_partial_call() -> None:
    check_transformed(
        """\
        import functools

        import torch

        amp_autocast = torch.cuda.amp.autocast if amp else suppress
        """,
        """\
        import functools

        import torch

        amp_autocast = (
            functools.partial(torch.autocast, "xla", dtype=torch.bfloat16) if amp else suppress
        )
        """,
        *PASSES,
    )


def test_float16_is_told_and_a_variable_that_may_be_it_as_well() -> None:
    code = """\
        import torch

        names = {"fp16": torch.float16, "bf16": torch.bfloat16}
        with torch.autocast("cuda", dtype=names[args.dtype]):
            y = model(x)
        with torch.autocast("cuda", dtype=names["bf16"]):
            y = model(x)
        """
    assert findings(code, *PASSES) == [("XLA303", 4)]


def test_unpacked_arguments_are_left_and_told() -> None:
    code = """\
        import torch

        with torch.cuda.amp.autocast(**options):
            y = model(x)
        """
    check_noop(code, *PASSES)
    assert findings(code, *PASSES) == [("XLA304", 3)]


def test_custom_functions() -> None:
    check_transformed(
        """\
        import torch
        from torch.cuda.amp import custom_bwd, custom_fwd


        class Square(torch.autograd.Function):
            @staticmethod
            @custom_fwd(cast_inputs=torch.float16)
            def forward(ctx, x):
                return x * x

            @staticmethod
            @custom_bwd
            def backward(ctx, grad):
                return grad
        """,
        """\
        import torch


        class Square(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(cast_inputs=torch.bfloat16, device_type="xla")
            def forward(ctx, x):
                return x * x

            @staticmethod
            @torch.amp.custom_bwd(device_type="xla")
            def backward(ctx, grad):
                return grad
        """,
        *PASSES,
    )


def test_questions_about_the_state() -> None:
    check_transformed(
        """\
        import torch

        torch.cuda.init()
        if torch.is_autocast_enabled():
            dtype = torch.get_autocast_gpu_dtype()
        """,
        """\
        import torch

        torch.cuda.init()
        if torch.is_autocast_enabled("xla"):
            dtype = torch.get_autocast_dtype("xla")
        """,
        *PASSES,
    )


BLOCKS = """\
import torch
from torch.utils.checkpoint import checkpoint
net = torch.nn.Linear(2, 2).cuda()
"""


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("torch.cuda.amp.autocast()", "dtype=torch.bfloat16, cache_enabled=False"),
        ("torch.cuda.amp.autocast(enabled=on)", "dtype=torch.bfloat16, enabled=on, cache_enabled=False"),
        ("torch.autocast('cuda')", "dtype=torch.bfloat16, cache_enabled=False"),
        ("torch.autocast('cuda', dtype=torch.bfloat16)", "dtype=torch.bfloat16, cache_enabled=False"),
    ],
)
def test_a_backward_pass_that_computes_blocks_again_under_autocast(given: str, written: str) -> None:
    """Run on torch_xla 2.9: with the casts kept, the block's weights get no gradient."""
    step = "    loss = checkpoint(net, x).sum()\n    loss.backward()\n"
    for start in (f"with {given}:\n", f"context = {given}\nwith context:\n"):
        outcome = migrate(BLOCKS + start + step, "autocast")
        assert f'torch.autocast("xla", {written})' in outcome.data.decode()
        assert [f.code for f in outcome.findings if f.code == "XLA309"] == ["XLA309"]


def test_a_backward_pass_behind_autocast_computes_blocks_again_as_it_did() -> None:
    step = "    loss = checkpoint(net, x).sum()\nloss.backward()\n"
    text = migrate(BLOCKS + "with torch.autocast('cuda'):\n" + step, "autocast").data.decode()
    assert "cache_enabled" not in text
    without = BLOCKS.replace("from torch.utils.checkpoint", "from ours")
    within = "with torch.autocast('cuda'):\n" + step.replace("\nloss", "\n    loss")
    assert "cache_enabled" not in migrate(without + within, "autocast").data.decode()


def test_casts_that_the_script_itself_keeps_are_told() -> None:
    step = "    checkpoint(net, x).sum().backward()\n"
    code = BLOCKS + "with torch.autocast('cuda', cache_enabled=True):\n" + step
    assert findings(code, "autocast") == [("XLA309", 4)]
    assert findings(code.replace("enabled=True", "enabled=False"), "autocast") == []
