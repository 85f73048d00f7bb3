"""Optimizers built before their model moves, and weights that a move would untie."""

from __future__ import annotations

from textwrap import dedent

import pytest
from helpers import check_noop, check_transformed, findings, migrate

from xla_transforms import engine
from xla_transforms.settings import Settings

ORDER = ("device", "device_moves", "tied_weights", "optimizer_order")
SWITCH = "torch.__future__.set_swap_module_params_on_conversion"


def test_the_right_order_stays() -> None:
    code = """\
        import torch

        device = pick("cuda")
        net = torch.nn.Linear(2, 2)
        net.to(device)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        net.to(device)
        """
    check_noop(code, "optimizer_order")


def test_another_models_optimizer_is_no_reason() -> None:
    code = """\
        import torch

        device = pick("cuda")
        gen = torch.nn.Linear(2, 2).to(device)
        opt_gen = torch.optim.SGD(gen.parameters(), lr=0.1)
        disc = torch.nn.Linear(2, 2)
        disc.to(device)
        opt_disc = torch.optim.SGD(disc.parameters(), lr=0.1)
        """
    check_noop(code, "optimizer_order")


def test_different_ways_of_one_choice_do_not_follow_each_other() -> None:
    code = """\
        import torch


        def train(device):
            net = torch.nn.Linear(2, 2)
            opt = torch.optim.SGD(net.parameters(), lr=0.1)


        def show(net, device):
            net.to("cuda")


        if flag:
            train()
        else:
            show(torch.nn.Linear(2, 2))
        """
    check_noop(code, "optimizer_order")


def test_the_move_goes_in_front_of_all_that_reads_the_parameters() -> None:
    check_transformed(
        """\
        import torch

        net = torch.nn.Linear(2, 2)
        net.bias.requires_grad_(False)
        params = [p for p in net.parameters() if p.requires_grad]
        opt = torch.optim.SGD(params, lr=0.1)
        sched = torch.optim.lr_scheduler.StepLR(opt, step_size=5)
        if resume:
            opt.load_state_dict(torch.load(resume)["opt"])

        # to the card
        net.cuda()
        """,
        """\
        import torch
        import torch_xla

        net = torch.nn.Linear(2, 2)
        net.bias.requires_grad_(False)
        # to the card
        net.to(torch_xla.device())
        params = [p for p in net.parameters() if p.requires_grad]
        opt = torch.optim.SGD(params, lr=0.1)
        sched = torch.optim.lr_scheduler.StepLR(opt, step_size=5)
        if resume:
            opt.load_state_dict(torch.load(resume)["opt"])
        """
        + "\n",
        *ORDER,
    )


def test_an_attribute_of_self() -> None:
    check_transformed(
        """\
        import torch


        class Runner:
            def __init__(self, device):
                self.net = torch.nn.Linear(2, 2)
                self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
                self.net = self.net.to(device)


        Runner(torch.device("cuda"))
        """,
        """\
        import torch
        import torch_xla


        class Runner:
            def __init__(self, device):
                self.net = torch.nn.Linear(2, 2)
                self.net = self.net.to(device)
                self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)


        Runner(torch_xla.device())
        """,
        *ORDER,
    )


@pytest.mark.parametrize(
    "late",
    [
        'dev = torch.device("cuda")\nnet.to(dev)\n',  # the device is bound too late
        "net.apply(init)\nnet.cuda()\n",  # random numbers would be drawn elsewhere
        "if flag:\n    net.cuda()\n",
    ],
)
def test_where_the_order_matters_the_move_keeps_the_parameters(late: str) -> None:
    head = "import torch\n\nnet = torch.nn.Linear(2, 2)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    code = head + late
    outcome = migrate(code, *ORDER)
    text = outcome.data.decode()
    assert text.index("optim.SGD") < text.index(f"{SWITCH}(True)") < text.index("net.to(")
    assert text.index("net.to(") < text.index(f"{SWITCH}(False)")
    assert [(f.code, f.fixed) for f in outcome.findings] == [("XLA412", True)]


def test_to_the_host_and_back_is_an_error() -> None:
    code = """\
        import torch

        device = pick("cuda")
        net = torch.nn.Linear(2, 2).to(device)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for epoch in range(3):
            torch.save(net.cpu().state_dict(), "net.pt")
            net.to(device)
        """
    assert findings(code, "optimizer_order") == [("XLA413", 7)]


def test_a_model_of_an_unknown_class_was_on_the_device_before() -> None:
    code = """\
        import torch
        from nets.net import Net


        def train(args):
            device = torch.device("cuda")
            net = Net().to(device)
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for epoch in range(3):
                net.train()
                loss = net(args.x.to(device)).mean()
                loss.backward()
                opt.step()
                if args.save:
                    check(net)
                    net.to(device).train()
        """
    assert "XLA412" not in {finding.code for finding in migrate(code).findings}


def test_a_tie_is_not_made_again_behind_the_optimizer() -> None:
    code = """\
        import torch


        class Lm(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.emb = torch.nn.Embedding(9, 4)
                self.out = torch.nn.Linear(4, 9)
                self.out.weight = self.emb.weight


        net = Lm()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        net.cuda()
        """
    text = migrate(code, *ORDER).data.decode()
    assert f"{SWITCH}(True)\nnet.to(torch_xla.device())\n" in text


def test_what_another_pass_puts_below_the_optimizer_stays_there() -> None:
    code = """\
        import torch
        from torch.utils.data import DataLoader

        device = torch.device("cuda")
        net = torch.nn.Linear(2, 2)
        params = list(net.parameters())
        loader = DataLoader(data, batch_size=2)
        net.to(device)
        opt = torch.optim.SGD(params, lr=0.1)
        for x in loader:
            net(x.to(device)).sum().backward()
            opt.step()
        """
    lines = migrate(code).data.decode().splitlines()
    wrapped = next(i for i, line in enumerate(lines) if "MpDeviceLoader" in line)
    assert lines[wrapped - 1].startswith("loader = DataLoader")
    assert lines.index("net.to(device)") < lines.index("params = list(net.parameters())")


def test_a_module_that_builds_its_own_optimizer_and_is_moved_where_it_is_made() -> None:
    code = """\
        import torch


        class Layer(torch.nn.Linear):
            def __init__(self, n):
                super().__init__(n, n)
                self.opt = torch.optim.Adam(self.parameters())


        layer = Layer(2).cuda()
        """
    assert findings(code) == []
    assert "set_swap_module_params_on_conversion(True)" in migrate(code).code


def test_a_model_that_reaches_its_move_among_keywords_in_another_file() -> None:
    files = {
        "run.py": """\
            import torch
            from trainer import Trainer
            net = torch.nn.Linear(2, 2)
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            Trainer(model=net, optimizer=opt)
            """,
        "trainer.py": """\
            import torch
            class Trainer:
                def __init__(self, **given):
                    self.model = given["model"].to("cuda")
                    self.optimizer = given["optimizer"]
            """,
    }
    program = {path: dedent(text).encode() for path, text in files.items()}
    outcome = engine.migrate_program(program)["trainer.py"]
    assert "set_swap_module_params_on_conversion(True)" in outcome.code
    (told,) = [f for f in outcome.findings if f.code == "XLA412"]
    assert told.message.startswith("the optimizer of line 4 of run.py is built before this move")


HELPER = """\
import torch
from torch import nn


def build(net, lr):
    return torch.optim.SGD(net.parameters(), lr=lr)


gen, disc = nn.Linear(2, 2), nn.Linear(2, 2)
"""


def told(code: str, target: str | None = None) -> list[tuple[int, str]]:
    """Which moves come too late for which optimizer: the line of the move, and what is said of it."""
    outcome = migrate(code, settings=Settings(target=target) if target else None)
    return [(f.span.line, f.message[:31]) for f in outcome.findings if f.code == "XLA412"]


def test_a_helper_that_builds_an_optimizer_behind_each_move() -> None:
    assert told(HELPER + "gen.cuda()\na = build(gen, 1)\ndisc.cuda()\nb = build(disc, 1)\n") == []


def test_a_helper_that_builds_an_optimizer_before_each_move() -> None:
    code = HELPER + "a = build(gen, 1)\nb = build(disc, 1)\ngen.cuda()\ndisc.cuda()\n"
    of_line = "the optimizer of line {} is bui"
    assert told(code) == [(12, of_line.format(10)), (13, of_line.format(11))]
    assert migrate(code).code.count(f"{SWITCH}(True)") == 2


def test_a_helper_that_builds_one_of_its_optimizers_too_early() -> None:
    code = HELPER + "gen.cuda()\na = build(gen, 1)\nb = build(disc, 1)\ndisc.cuda()\n"
    assert told(code, "2.1") == [(13, "the optimizer of line 12 is bui")]


def test_a_helper_that_is_given_the_parameters() -> None:
    code = """\
        import torch


        def build(params, lr):
            return torch.optim.SGD(params, lr=lr)


        device = torch.device("cuda")
        net = torch.nn.Linear(2, 2)
        opt = build(net.parameters(), 0.1)
        net = net.to(device)
        """
    expected = code.replace("        net = net.to(device)\n", "")
    expected = expected.replace("        opt = b", "        net = net.to(device)\n        opt = b")
    check_transformed(code, expected, "optimizer_order")


PART = "import torch\nfrom torch import nn\nnet, other = nn.Linear(2, 2), nn.Linear(2, 2)\n"
OPTIMIZER = "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
OWN = """\
class Whole(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body
"""


@pytest.mark.parametrize(
    "move",
    [
        "whole = nn.Sequential(nn.Flatten(), net).cuda()",
        "whole = nn.ModuleDict({'a': net}).to('cuda')",
        "layers = [nn.Flatten(), net]\nwhole = nn.Sequential(*layers)\nwhole.cuda()",
        f"{OWN}whole = Whole(net)\nwhole.cuda()",
        f"{OWN}whole = nn.Sequential(Whole(body=net)).cuda()",
    ],
)
def test_a_part_of_what_moves_behind_its_optimizer(move: str) -> None:
    outcome = migrate(PART + OPTIMIZER + move + "\n")
    assert [f.severity.label for f in outcome.findings if f.code == "XLA412"] == ["error"]
    assert f"{SWITCH}(True)\nwhole" in outcome.code


@pytest.mark.parametrize(
    "move",
    [
        "whole = nn.Sequential(nn.Flatten(), other).cuda()",
        f"{OWN}kept = Whole(net)\nwhole = Whole(other)\nwhole.cuda()",
    ],
)
def test_a_part_of_something_else_than_what_moves(move: str) -> None:
    assert told(PART + OPTIMIZER + move + "\n") == []


def test_a_part_that_is_on_the_device_before_its_optimizer() -> None:
    assert told(PART + "net.cuda()\n" + OPTIMIZER + "whole = nn.Sequential(net).cuda()\n") == []


def test_the_parameter_of_a_lambda_is_no_helpers() -> None:
    chosen = "opt = torch.optim.SGD(filter(lambda p: p.requires_grad, net.parameters()), lr=0.1)\n"
    code = f"{PART}def build(net):\n    return net\n\n\nnet.cuda()\n{chosen}"
    assert told(code) == []
    assert not migrate(code).failed
