"""Models that are made and given to an optimizer in one function, and moved in another one."""

from __future__ import annotations

from textwrap import dedent

import pytest
from helpers import findings, migrate

from xla_transforms import engine
from xla_transforms.settings import Settings

ORDER = ("device", "device_moves", "tied_weights", "optimizer_order")
SWITCH = "torch.__future__.set_swap_module_params_on_conversion"
MOVED = "    net = net.to(torch_xla.device())\n"
BUILD = """\
import argparse
import copy
import sys
import torch

def build():
    net = torch.nn.Linear(2, 2)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    return net, opt

"""
TRAIN = """\
def train(net, opt):
    net.cuda()
    net(torch.ones(2).cuda())

"""
MAIN = "net, opt = build()\ntrain(net, opt)\n"


def kept(code: str) -> None:
    """The model isn't moved where it is made: the switch is set around the later move."""
    text = migrate(code, *ORDER).code
    assert MOVED not in text
    assert f"{SWITCH}(True)" in text
    assert findings(code, *ORDER, settings=Settings(target="torch_xla==2.1")) != []


@pytest.mark.parametrize(
    "between",
    [
        "net.apply(init)",  # random numbers would be drawn on the device
        "net(torch.ones(2))",
        "for p in net.parameters():\n    torch.nn.init.normal_(p)",
        "prepare(net)",  # of unknown meaning
        "other = copy.deepcopy(net)",
        "boxes = {'net': net}",
        "net.weight.data.fill_(1.0)",
        "first = net.state_dict()\nkeep(first)",
        "params = [p for p in net.parameters()]\ninit(params)",
        "weights = [w.numpy() for w in net.parameters()]",
        "box.net = net",
        "net = net.half()",
    ],
)
def test_what_asks_where_the_model_is_before_the_move(between: str) -> None:
    kept(BUILD + TRAIN + MAIN.replace("\n", f"\n{between}\n", 1))


@pytest.mark.parametrize(
    "main",
    [
        "net, opt = build()\nif flag:\n    train(net, opt)\n",
        "net, opt = build()\nfor fold in folds:\n    train(net, opt)\n",
        "net, opt = build()\ntry:\n    train(net, opt)\nexcept ImportError:\n    pass\n",
        "net, opt = build()\nflag and train(net, opt)\n",
    ],
)
def test_a_move_that_may_not_come(main: str) -> None:
    kept(BUILD + TRAIN + main)


@pytest.mark.parametrize(
    "main",
    [
        "net, opt = build()\ntrain(net, opt)\nteacher, _ = build()\n",  # the teacher stays on the CPU
        "makers = [build]\nnet, opt = build()\ntrain(net, opt)\n",
    ],
)
def test_a_function_that_makes_others_too(main: str) -> None:
    assert MOVED not in migrate(BUILD + TRAIN + main, *ORDER).code


def test_a_result_that_goes_on_as_a_whole() -> None:
    kept(BUILD + TRAIN + "both = build()\nlog(both)\nnet, opt = both\ntrain(net, opt)\n")


def test_a_device_that_an_option_makes_the_cpu() -> None:
    head = "device = torch.device('cpu' if args.no_cuda else 'cuda')\n"
    code = BUILD.replace("def build", "args = argparse.Namespace()\n" + head + "def build")
    kept(code + TRAIN.replace("net.cuda()", "net.to(device)") + MAIN)


def test_a_move_behind_a_flag_of_the_user() -> None:
    code = BUILD.replace("def build", "use_cuda = not args.cpu and torch.cuda.is_available()\ndef build")
    train = TRAIN.replace("    net.cuda()", "    if use_cuda:\n        net.cuda()")
    assert MOVED not in migrate(code + train + MAIN, *ORDER).code


def test_ties_that_are_made_again_behind_the_move() -> None:
    tied = """\
class Lm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = torch.nn.Embedding(9, 4)
        self.out = torch.nn.Linear(4, 9)
        self.out.weight = self.emb.weight

"""
    code = BUILD.replace("def build", tied + "def build")
    code = code.replace("net = torch.nn.Linear(2, 2)", "net = Lm()")
    kept(code + TRAIN + MAIN)


def test_a_model_that_is_bound_again_below_its_optimizer() -> None:
    code = BUILD.replace("    return", "    net = torch.nn.Sequential(net)\n    return") + TRAIN + MAIN
    assert MOVED not in migrate(code, *ORDER).code


def test_a_model_that_the_function_was_given() -> None:
    code = """\
import torch

def build(net):
    return torch.optim.SGD(net.parameters(), lr=0.1)

def train(net, opt):
    net.cuda()

net = torch.nn.Linear(2, 2)
train(net, build(net))
"""
    kept(code)


def test_one_optimizer_in_another_function() -> None:
    code = BUILD + TRAIN + "def second(net):\n    return torch.optim.SGD(net.parameters(), lr=0.2)\n\n"
    kept(code + "net, opt = build()\nother = second(net)\ntrain(net, opt)\n")


def test_in_replicas_nothing_moves_before_the_launch() -> None:
    code = """\
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def build():
    net = torch.nn.Linear(2, 2)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    return net, opt

def worker(rank, net, opt):
    dist.init_process_group("nccl", rank=rank, world_size=2)
    net.cuda(rank)
    net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[rank])
    net(torch.ones(2).cuda(rank)).sum().backward()
    opt.step()

if __name__ == "__main__":
    net, opt = build()
    mp.spawn(worker, nprocs=2, args=(net, opt))
"""
    assert "net = net.to(" not in migrate(code).code


@pytest.mark.parametrize("target", ["torch_xla==2.9", "torch_xla==2.1", "sagemaker"])
def test_the_model_moves_where_it_is_made(target: str) -> None:
    outcome = migrate(BUILD + TRAIN + MAIN, *ORDER, settings=Settings(target=target))
    device = "torch_xla.device()" if target.endswith("9") else "xm.xla_device()"
    lines = outcome.code.splitlines()
    made = lines.index("    net = torch.nn.Linear(2, 2)")
    assert lines[made + 1] == f"    net = net.to({device})"
    assert lines[made + 2].startswith("    opt = ")
    assert SWITCH not in outcome.code
    assert [f.code for f in outcome.findings] == []
    assert "XLA411" in {change.code for change in outcome.changes}


@pytest.mark.parametrize(
    "between",
    [
        "net.load_state_dict(torch.load('net.pt')['net'])",
        "opt.load_state_dict(torch.load('net.pt')['opt'])",
        "print(net)",
        "print(sum(p.numel() for p in net.parameters() if p.requires_grad))",
        "net.train()",
        "sched = torch.optim.lr_scheduler.StepLR(opt, 3)",
        "if flag:\n    sys.exit()",
    ],
)
def test_what_does_not_ask_where_the_model_is(between: str) -> None:
    code = BUILD + TRAIN + MAIN.replace("\n", f"\n{between}\n", 1)
    assert MOVED in migrate(code, *ORDER).code


def test_two_models_with_an_optimizer_each() -> None:
    code = """\
import torch

def build():
    gen = torch.nn.Linear(2, 2)
    critic = torch.nn.Linear(2, 1)
    opt_g = torch.optim.Adam(gen.parameters())
    opt_c = torch.optim.Adam(critic.parameters())
    return gen, critic, opt_g, opt_c

class Trainer:
    def __init__(self, gen, critic):
        self.gen = gen.to("cuda")
        self.critic = critic.to("cuda")

gen, critic, opt_g, opt_c = build()
Trainer(gen, critic)
"""
    lines = migrate(code, *ORDER).code.splitlines()
    assert lines[lines.index("    gen = gen.to(torch_xla.device())") + 1].startswith("    opt_g")
    assert lines[lines.index("    critic = critic.to(torch_xla.device())") + 1].startswith("    opt_c")


def test_a_choice_between_optimizers_stands_below_the_move() -> None:
    choice = """\
    if flag:
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
    else:
        opt = torch.optim.Adam(net.parameters())
"""
    code = BUILD.replace("    opt = torch.optim.SGD(net.parameters(), lr=0.1)\n", choice) + TRAIN + MAIN
    assert MOVED + "    if flag:\n" in migrate(code, *ORDER).code


def test_an_attribute_that_another_method_moves() -> None:
    code = """\
import torch

class Runner:
    def __init__(self):
        self.net = torch.nn.Linear(2, 2)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def run(self):
        self.net.cuda()
        self.net(torch.ones(2).cuda())

runner = Runner()
runner.run()
"""
    moved = "        self.net = self.net.to(torch_xla.device())\n        self.opt ="
    assert moved in migrate(code, *ORDER).code


def test_a_device_of_the_functions_own_is_named() -> None:
    code = BUILD.replace("def build():", "def build(device):").replace("build()", "build(device)")
    main = 'device = torch.device("cuda")\n' + MAIN.replace("build()", "build(device)")
    train = TRAIN.replace("net.cuda()", "net.to('cuda')")
    assert "    net = net.to(device)\n    opt =" in migrate(code + train + main, *ORDER).code


def test_the_model_of_another_file_keeps_its_parameters() -> None:
    files = {
        "run.py": "from made import build\n\n" + TRAIN + MAIN,
        "made.py": BUILD,
    }
    program = {path: dedent(text).encode() for path, text in files.items()}
    outcome = engine.migrate_program(program)["run.py"]
    assert f"{SWITCH}(True)" in outcome.code
