"""Gradient scalers: taken out where all is understood, switched off elsewhere."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, migrate, open_findings, run_only

from xla_transforms.settings import Settings

PASSES = ("grad_scaler", "steps", "availability")


def rules_of(code: str) -> list[str]:
    return [f.code for f in migrate(code, *PASSES).findings]


def test_a_scaler_that_is_off_and_on_xla_stays() -> None:
    check_noop(
        """\
        import torch

        device = torch.device("cuda")
        scaler = torch.amp.GradScaler("xla", enabled=False)
        """,
        *PASSES,
    )


def test_a_scaler_of_something_else_stays() -> None:
    check_noop(
        """\
        import torch
        from sklearn.preprocessing import StandardScaler

        device = torch.device("cuda")
        scaler = StandardScaler()
        scaler.scale(1)
        """,
        *PASSES,
    )


def test_backward_clip_and_step_keep_their_order() -> None:
    check_transformed(
        """\
        import torch

        net = torch.nn.Linear(2, 2).cuda()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.cuda.amp.GradScaler(enabled=not fp32)
        for x in data:
            loss = net(x).sum()
            scaler.scale(loss / 4).backward()
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
        torch.save({"net": net.state_dict(), "scaler": scaler.state_dict()}, "x.pt")
        """,
        """\
        import torch
        import torch_xla.core.xla_model as xm

        net = torch.nn.Linear(2, 2).cuda()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for x in data:
            loss = net(x).sum()
            (loss / 4).backward()
            xm.reduce_gradients(opt)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
        torch.save({"net": net.state_dict()}, "x.pt")
        """,
        *PASSES,
    )


def test_a_branch_without_the_scaler_is_what_is_left() -> None:
    check_transformed(
        """\
        import torch

        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda") if amp else None
        for x in data:
            loss = net(x.cuda()).sum()
            if scaler is not None:
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            else:
                loss.backward()
                opt.step()
        if scaler is not None:
            state["scaler"] = scaler.state_dict()
        if "scaler" in state:
            scaler.load_state_dict(state["scaler"])
        """,
        """\
        import torch
        import torch_xla.core.xla_model as xm

        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for x in data:
            loss = net(x.cuda()).sum()
            loss.backward()
            xm.optimizer_step(opt)
        """,
        *PASSES,
    )


def test_each_way_of_a_flag_takes_one_step() -> None:
    check_transformed(
        """\
        import torch

        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.cuda.amp.GradScaler()
        for x in data:
            if use_amp:
                loss = half(x.cuda())
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            else:
                loss = net(x.cuda())
                loss.backward()
                opt.step()
            sched.step()
        """,
        """\
        import torch
        import torch_xla.core.xla_model as xm

        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for x in data:
            if use_amp:
                loss = half(x.cuda())
                loss.backward()
                xm.optimizer_step(opt)
            else:
                loss = net(x.cuda())
                loss.backward()
                xm.optimizer_step(opt)
            sched.step()
        """,
        *PASSES,
    )


def test_parameters_and_arguments_go_together() -> None:
    check_transformed(
        """\
        import torch
        from torch.amp import GradScaler


        def train(net, opt, d_scaler, g_scaler, steps):
            for _ in range(steps):
                d_scaler.scale(net(x)).backward()
                d_scaler.step(opt)
                d_scaler.update()
                g_scaler.scale(net(y)).backward()
                g_scaler.step(opt)
                g_scaler.update()


        def save(path, net, scaler=None):
            state = {
                "net": net.state_dict(),
                "scaler": scaler.state_dict() if scaler is not None else None,
            }
            torch.save(state, path)


        def main():
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            a = GradScaler("cuda")
            b = GradScaler("cuda")
            train(net, opt, a, g_scaler=b, steps=3)
            save("x.pt", net, a)
        """,
        """\
        import torch
        import torch_xla.core.xla_model as xm


        def train(net, opt, steps):
            for _ in range(steps):
                net(x).backward()
                xm.optimizer_step(opt)
                net(y).backward()
                xm.optimizer_step(opt)


        def save(path, net):
            state = {
                "net": net.state_dict(),
            }
            torch.save(state, path)


        def main():
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            train(net, opt, steps=3)
            save("x.pt", net)
        """,
        *PASSES,
    )


@pytest.mark.parametrize(("receiver", "taken"), [("net", True), ("data[0]", False)])
def test_a_method_of_the_functions_name_calls_it_only_where_it_may(receiver: str, taken: bool) -> None:
    code = f"""\
        import torch
        from elsewhere import data

        def train(net, opt, scaler):
            {receiver}.train()
            for x in data:
                scaler.scale(net(x.cuda()).sum()).backward()
                scaler.step(opt)
                scaler.update()

        net = torch.nn.Linear(2, 2).cuda()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        train(net, opt, torch.cuda.amp.GradScaler())
        """
    assert ("XLA311" in rules_of(code)) is taken


def test_an_attribute_of_self_given_to_the_constructor() -> None:
    check_transformed(
        """\
        import torch


        class Trainer:
            def __init__(self, net, scaler):
                self.opt = torch.optim.SGD(net.parameters(), lr=0.1)
                self.scaler = scaler

            def step(self, loss):
                self.scaler.scale(loss).backward()
                self.scaler.step(self.opt)
                self.scaler.update()


        trainer = Trainer(net, scaler=torch.cuda.amp.GradScaler())
        """,
        """\
        import torch
        import torch_xla.core.xla_model as xm


        class Trainer:
            def __init__(self, net):
                self.opt = torch.optim.SGD(net.parameters(), lr=0.1)

            def step(self, loss):
                loss.backward()
                xm.optimizer_step(self.opt)


        trainer = Trainer(net)
        """,
        *PASSES,
    )


@pytest.mark.parametrize(
    ("native", "kept"),
    [
        ("torch.cuda.amp.GradScaler()", 'torch.amp.GradScaler("xla", enabled=False)'),
        ("torch.cuda.amp.GradScaler(1024.0)", 'torch.amp.GradScaler("xla", 1024.0, enabled=False)'),
        (
            'torch.amp.GradScaler("cuda", init_scale=2.0, enabled=amp)',
            'torch.amp.GradScaler("xla", init_scale=2.0, enabled=False)',
        ),
        ("torch.amp.GradScaler(enabled=amp)", 'torch.amp.GradScaler("xla", enabled=False)'),
        ("torch.cuda.amp.GradScaler(**options)", 'torch.amp.GradScaler("xla", enabled=False)'),
        ('torch.GradScaler("cuda")', 'torch.GradScaler("xla", enabled=False)'),
    ],
)
def test_a_scaler_whose_scale_is_asked_for_is_switched_off(native: str, kept: str) -> None:
    head = 'import torch\n\ndevice = torch.device("cuda")\nscaler = '
    rest = "\nscaler.scale(loss).backward()\nscaler.step(opt)\nscaler.update()\nprint(scaler.get_scale())\n"
    check_transformed(f"{head}{native}{rest}", f"{head}{kept}{rest}", *PASSES)


@pytest.mark.parametrize(
    "use",
    [
        "scalers = [scaler]",
        "launch(train, scaler)",
        "first, second = scaler, 1",
        "if scaler is not None:\n    log(loss)",
        'resume(state["scaler"], {"scaler": scaler.state_dict()})',
        "run = lambda: scaler.scale",
    ],
)
def test_an_unknown_use_keeps_all_calls(use: str) -> None:
    code = f"""import torch

scaler = torch.cuda.amp.GradScaler()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler.scale(loss).backward()
scaler.step(opt)
scaler.update()
{use}
"""
    outcome = migrate(code, *PASSES)
    text = outcome.data.decode()
    assert 'scaler = torch.amp.GradScaler("xla", enabled=False)' in text
    assert "scaler.scale(loss).backward()\nscaler.step(opt)\nscaler.update()\n" in text
    assert rules_of(code) == ["XLA312"]


def test_a_class_that_derives_from_the_scaler_is_told() -> None:
    code = """\
        import torch


        class Mine(torch.cuda.amp.GradScaler):
            pass
        """
    assert rules_of(code) == ["XLA315"]


OLDER = Settings(target="2.5")


def test_a_target_that_has_a_scaler_gets_it_and_gradients_are_reduced_first() -> None:
    check_transformed(
        """\
        import torch

        scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
        opt = torch.optim.SGD(model.parameters())
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        """,
        """\
        import torch
        import torch_xla.core.xla_model as xm
        from torch_xla.amp import GradScaler

        scaler = GradScaler(init_scale=1024.0)
        opt = torch.optim.SGD(model.parameters())
        scaler.scale(loss).backward()
        xm.reduce_gradients(opt)
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        """,
        *PASSES,
        settings=OLDER,
    )


def test_of_two_optimizers_each_is_reduced_before_its_own_gradients_are_unscaled() -> None:
    code = """\
        import torch
        scaler = torch.cuda.amp.GradScaler()
        a, b = torch.optim.SGD(f.parameters()), torch.optim.SGD(g.parameters())
        scaler.scale(loss).backward()
        scaler.unscale_(a)
        scaler.unscale_(b)
        scaler.step(a)
        scaler.step(b)
        """
    lines = run_only(code, *PASSES, settings=OLDER).splitlines()
    first = lines.index("scaler.scale(loss).backward()")
    assert lines[first + 1 :] == [
        "xm.reduce_gradients(a)",
        "scaler.unscale_(a)",
        "xm.reduce_gradients(b)",
        "scaler.unscale_(b)",
        "scaler.step(a)",
        "scaler.step(b)",
    ]


def test_the_containers_gradients_are_averaged_by_hand() -> None:
    code = """\
        import torch
        scaler = torch.cuda.amp.GradScaler()
        opt = torch.optim.SGD(model.parameters())
        scaler.scale(loss).backward()
        scaler.step(opt)
        """
    result = " ".join(run_only(code, *PASSES, settings=Settings(target="sagemaker")).split())
    text = 'xm.all_reduce("sum", xm._fetch_gradients(opt), scale=1.0 / xm.xrt_world_size()) scaler.step(opt)'
    assert text in result


@pytest.mark.parametrize("given", ['"cuda"', "device", "device.type", 'device="cuda"'])
def test_the_scaler_of_xla_takes_no_device(given: str) -> None:
    head = "import torch\ndevice = torch.device('cuda')\n"
    code = head + f"scaler = torch.amp.GradScaler({given}, enabled=amp)\n"
    assert "GradScaler(enabled=amp)\n" in run_only(code, "grad_scaler", settings=OLDER)


def test_the_first_argument_of_cudas_scaler_is_no_device() -> None:
    code = "import torch\nscaler = torch.cuda.amp.GradScaler(scale, enabled=amp)\n"
    assert "GradScaler(scale, enabled=amp)\n" in run_only(code, "grad_scaler", settings=OLDER)


def test_its_import_replaces_cudas() -> None:
    check_transformed(
        """\
        from torch.cuda.amp import GradScaler, autocast
        import torch

        scaler = GradScaler()
        """,
        """\
        from torch.cuda.amp import autocast
        import torch
        from torch_xla.amp import GradScaler

        scaler = GradScaler()
        """,
        "grad_scaler",
        settings=OLDER,
    )


def test_a_name_that_is_somebody_elses_too_is_not_taken() -> None:
    code = """\
        try:
            from torch.cuda.amp import GradScaler
        except ImportError:
            from ours import GradScaler
        import torch
        scaler = torch.cuda.amp.GradScaler()
        """
    result = run_only(code, "grad_scaler", settings=OLDER)
    assert "from torch_xla.amp import GradScaler as xla_GradScaler\n" in result
    assert "    from torch.cuda.amp import GradScaler\n" in result


def test_a_class_of_ones_own_is_told_what_to_derive_from() -> None:
    code = "import torch\nclass Mine(torch.cuda.amp.GradScaler):\n    pass\nmodel.cuda()\n"
    found = open_findings(migrate(code, "grad_scaler", settings=OLDER))
    assert [(f.code, f.advice) for f in found] == [("XLA315", "derive it from torch_xla.amp.GradScaler")]
