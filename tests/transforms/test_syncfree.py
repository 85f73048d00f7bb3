"""SGD, Adam and AdamW beside AMP; arguments that XLA does not take."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, findings

from xla_transforms.engine import migrate_program
from xla_transforms.settings import Settings

AMP = '    with torch.autocast("cuda"):\n        pass\n'
HEAD = "import torch\n\n\ndef build(net):\n"


def test_without_amp_the_optimizer_stays() -> None:
    check_noop(f"{HEAD}    net.cuda()\n    return torch.optim.Adam(net.parameters())\n", "syncfree")


def test_a_module_that_does_not_speak_of_a_gpu_stays_beside_amp_elsewhere() -> None:
    files = {
        "main.py": b"import torch, build\ntorch.amp.GradScaler('cuda')\nbuild.make(net.cuda())\n",
        "build.py": b"import torch\n\ndef make(net, device):\n    torch.optim.Adam(net.parameters())\n",
    }
    assert migrate_program(files)["build.py"].data == files["build.py"]


def test_never_means_never() -> None:
    code = f"{HEAD}{AMP}    return torch.optim.Adam(net.parameters())\n"
    check_noop(code, "syncfree", settings=Settings(syncfree="never"))


def test_classes_types_and_schedulers_stay() -> None:
    check_noop(
        f"""{HEAD}{AMP}    class Mine(torch.optim.SGD):
        pass

    opt = Mine(net.parameters(), lr=0.1)
    assert isinstance(opt, torch.optim.SGD)
    return torch.optim.lr_scheduler.StepLR(opt, 1)
""",
        "syncfree",
    )


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_beside_amp_the_three_get_their_twins(name: str) -> None:
    call = f"{name}([{{'params': net.parameters(), 'lr': 1e-5}}], 1e-3, weight_decay=0.1)"
    check_transformed(
        f"{HEAD}{AMP}    return torch.optim.{name}{call.removeprefix(name)}\n",
        HEAD.replace("import torch\n", "import torch\nfrom torch_xla.amp import syncfree\n", 1)
        + f"{AMP}    return syncfree.{call}\n",
        "syncfree",
        settings=Settings(black=None),
    )


def test_always_means_without_amp_as_well() -> None:
    check_transformed(
        f"{HEAD}    net.cuda()\n    return torch.optim.SGD(net.parameters(), lr=0.1)\n",
        HEAD.replace("import torch\n", "import torch\nfrom torch_xla.amp import syncfree\n", 1)
        + "    net.cuda()\n    return syncfree.SGD(net.parameters(), lr=0.1)\n",
        "syncfree",
        settings=Settings(syncfree="always"),
    )


def test_fused_goes_wherever_it_is_said() -> None:
    check_transformed(
        f"""{HEAD}    net.cuda()
    extra = dict(fused=True) if use_fused else dict()
    more = {{"lr": 0.1, "fused": True}}
    a = torch.optim.AdamW(net.parameters(), lr=0.1, fused=True, betas=(0.9, 0.95))
    b = torch.optim.AdamW(net.parameters(), **extra)
    c = torch.optim.Adagrad(net.parameters(), **more)
    d = getattr(torch.optim, name)(net.parameters(), fused=use_fused)
    return a, b, c, d, torch.optim.Adam(net.parameters(), fused=False)
""",
        f"""{HEAD}    net.cuda()
    extra = dict() if use_fused else dict()
    more = {{"lr": 0.1}}
    a = torch.optim.AdamW(net.parameters(), lr=0.1, betas=(0.9, 0.95))
    b = torch.optim.AdamW(net.parameters(), **extra)
    c = torch.optim.Adagrad(net.parameters(), **more)
    d = getattr(torch.optim, name)(net.parameters())
    return a, b, c, d, torch.optim.Adam(net.parameters(), fused=False)
""",
        "syncfree",
        rules={"XLA402"},
    )


def test_what_has_no_twin_is_told() -> None:
    code = f"""{HEAD}{AMP}    a = torch.optim.RMSprop(net.parameters())
    cls = torch.optim.Adam
    b = cls(net.parameters())
    return a, b
"""
    check_noop(code, "syncfree")
    assert findings(code, "syncfree") == [("XLA403", 7), ("XLA404", 9)]


def test_optimizers_of_cuda_alone_are_errors() -> None:
    code = """\
        import bitsandbytes as bnb
        from apex.optimizers import FusedAdam

        net.cuda()
        a = FusedAdam(net.parameters())
        b = bnb.optim.Adam8bit(net.parameters())
        torch = None
        """
    check_noop(code, "syncfree")
    assert findings(code, "syncfree") == [("XLA405", 5), ("XLA405", 6)]


def test_what_is_only_kept_out_of_mixed_precision_does_not_begin_it() -> None:
    off = '    with torch.autocast("cuda", enabled=False):\n        pass\n'
    check_noop(f"{HEAD}{off}    return torch.optim.Adam(net.parameters())\n", "syncfree")


def test_an_optimizer_that_accelerate_prepares_stays() -> None:
    prepared = "    return accelerate.Accelerator().prepare(torch.optim.Adam(net.parameters()))\n"
    check_noop(f"import accelerate\n{HEAD}{AMP}{prepared}", "syncfree")
