"""torch.compile, inference mode, activation checkpointing."""

from __future__ import annotations

import pytest
from transforms.helpers import check_noop, check_transformed, findings, run_only


def test_other_things_named_compile_stay() -> None:
    check_noop(
        """\
        import re
        import torch

        class Net(torch.nn.Module):
            def compile(self):
                self.ready = True

        net = Net().cuda()
        net.compile()
        word = re.compile("x")
        fast = torch.compile(net, backend="openxla")
        """,
        "compile",
    )


def test_compiled_model_is_the_model() -> None:
    check_transformed(
        """\
        import torch

        net = torch.nn.Linear(2, 2).cuda()
        net = torch.compile(net, mode="max-autotune")
        net = torch.compile(net) if args.fast else net
        fast = torch.compile(net)
        net.compile()
        state = fast._orig_mod.state_dict()
        """,
        """\
        import torch

        net = torch.nn.Linear(2, 2).cuda()
        fast = net
        state = fast.state_dict()
        """,
        "compile",
        rules={"XLA251"},
    )


def test_guarded_compilation_goes_with_its_guard() -> None:
    check_transformed(
        """\
        import torch

        net = torch.nn.Linear(2, 2)
        if args.compile:
            net = torch.compile(net)
        if torch.cuda.is_available():
            torch.compiler.cudagraph_mark_step_begin()
        """,
        """\
        import torch

        net = torch.nn.Linear(2, 2)
        """,
    )


def test_decorators_go_and_comments_stay() -> None:
    check_transformed(
        """\
        import torch

        x = torch.zeros(1).cuda()

        @torch.compile  # quick
        def f(x):
            return x

        @torch.no_grad()
        @torch.compile(fullgraph=True)
        def g(x):
            return x
        """,
        """\
        import torch

        x = torch.zeros(1).cuda()

        # quick
        def f(x):
            return x

        @torch.no_grad()
        def g(x):
            return x
        """,
        "compile",
    )


def test_compile_that_is_handed_on_is_named() -> None:
    code = """\
    import torch

    x = torch.zeros(1).cuda()
    nets = map(torch.compile, nets)
    """
    check_noop(code, "compile")
    assert findings(code, "compile") == [("XLA252", 4)]


def test_inference_mode_becomes_no_grad() -> None:
    check_transformed(
        """\
        import torch
        from torch import inference_mode

        @torch.inference_mode()
        def f(x):
            return x.cuda()

        @inference_mode
        def g(x):
            with torch.inference_mode(mode=x.ready), inference_mode(True):
                return x
        """,
        """\
        import torch

        @torch.no_grad()
        def f(x):
            return x.cuda()

        @torch.no_grad
        def g(x):
            with torch.set_grad_enabled(not x.ready), torch.no_grad():
                return x
        """,
        "gradient_modes",
        rules={"XLA261"},
    )


def test_reentrant_checkpointing_changes_its_module() -> None:
    outcome = check_transformed(
        """\
        import torch
        from torch.utils.checkpoint import checkpoint

        def forward(block, x, mask):
            x = x.cuda()
            x = checkpoint(block, x, mask)
            return checkpoint(block, x, mask, use_reentrant=True, preserve_rng_state=False)
        """,
        """\
        import torch
        import torch_xla.utils.checkpoint as xla_checkpoint

        def forward(block, x, mask):
            x = x.cuda()
            x = xla_checkpoint.checkpoint(block, x, mask)
            return xla_checkpoint.checkpoint(block, x, mask, preserve_rng_state=False)
        """,
        "gradient_modes",
        rules={"XLA262"},
    )
    assert not outcome.findings


def test_other_checkpointing_makes_its_input_require_a_gradient() -> None:
    outcome = check_transformed(
        """\
        import torch.utils.checkpoint as cp

        def forward(block, x, mask):
            x = x.cuda()
            return cp.checkpoint(block, x + 1, mask, use_reentrant=False, determinism_check="none")
        """,
        """\
        import torch_xla.utils.checkpoint as xla_checkpoint

        def forward(block, x, mask):
            x = x.cuda()
            return xla_checkpoint.checkpoint(block, (x + 1).requires_grad_(), mask)
        """,
        "gradient_modes",
    )
    assert [(f.code, f.fixed) for f in outcome.findings] == [("XLA262", True)]


def test_checkpointing_with_keywords_is_left_and_named() -> None:
    code = """\
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential

    y = checkpoint(block, x.cuda(), mask=m, use_reentrant=False)
    z = checkpoint_sequential(blocks, 2, x)
    f = checkpoint
    """
    check_noop(code, "gradient_modes")
    assert findings(code, "gradient_modes") == [("XLA263", 3), ("XLA263", 4), ("XLA263", 5)]


def test_anomaly_detection_is_told() -> None:
    code = """\
    import torch

    torch.autograd.set_detect_anomaly(False)
    torch.autograd.set_detect_anomaly(True)
    x = torch.zeros(1).cuda()
    """
    assert findings(code, "gradient_modes") == [("XLA264", 4)]


@pytest.mark.parametrize("other", ["lambda f, x: f(x)", "plain"])
def test_checkpointing_that_the_script_chooses_is_reported_where_it_is_chosen(other: str) -> None:
    head = "import torch\nfrom torch.utils.checkpoint import checkpoint\n\n\n"
    code = f"{head}def plain(f, x):\n    return f(x)\n\n\nrun = checkpoint if save else {other}\n"
    code += "y = run(net, x.cuda())\n"
    check_noop(code, "gradient_modes")
    assert findings(code, "gradient_modes") == [("XLA263", 9)]


def test_a_function_that_stands_in_for_a_failed_import_is_no_choice() -> None:
    code = (
        "import torch\n\ntry:\n    from torch.utils.checkpoint import checkpoint\nexcept ImportError:\n"
        "    def checkpoint(f, x):\n        return f(x)\n\ny = checkpoint(net, x.cuda())\n"
    )
    assert "y = xla_checkpoint.checkpoint(net, x.cuda())\n" in run_only(code, "gradient_modes")
