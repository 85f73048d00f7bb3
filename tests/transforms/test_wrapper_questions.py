"""Questions whether a model is wrapped."""

from __future__ import annotations

import pytest
from helpers import findings, migrate, run_only
from replicated import launched

from xla_transforms.settings import Settings

PASSES = ("data_parallel", "wrapper_questions", "availability")
TOP = "import torch\nfrom torch import nn\n\nnet = nn.DataParallel(nn.Linear(2, 2).cuda())\n"


def left(code: str) -> str:
    """What is left of some lines behind a model that was wrapped."""
    text = run_only(TOP + code, *PASSES)
    return text.split("nn.Linear(2, 2).cuda()\n", 1)[1]


@pytest.mark.parametrize(
    "code",
    [
        'core = other.module if hasattr(other, "module") else other\n',
        "core = other.module if isinstance(other, nn.DataParallel) else other\n",
        'core = net.body if hasattr(net, "body") else net\n',
        "core = net.weight if isinstance(net, nn.Linear) else net\n",
    ],
)
def test_other_questions_stay(code: str) -> None:
    top = TOP + "other = nn.Linear(2, 2).cuda()\n"
    assert run_only(top + code, *PASSES).endswith(code)
    assert [rule for rule, _ in findings(top + code, *PASSES) if rule != "XLA121"] == []


def test_a_model_that_may_have_a_module_of_its_own_is_asked_as_before() -> None:
    code = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.module = nn.Linear(2, 2)


net = nn.DataParallel(Net().cuda())
if hasattr(net, "module"):
    print(1)
"""
    assert left(code).endswith('if hasattr(net, "module"):\n    print(1)\n')
    assert [rule for rule, _ in findings(TOP + code, *PASSES) if rule != "XLA121"] == []


def test_what_a_call_with_effects_decides_is_told() -> None:
    code = "core = net.module if ready() and isinstance(net, nn.DataParallel) else net\n"
    assert "if ready() and" in left(code)
    assert ("XLA126", 5) in findings(TOP + code, *PASSES)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('a = net.module.state_dict() if hasattr(net, "module") else net.state_dict()\n',
         "a = net.state_dict()\n"),
        ("a = net if not isinstance(net, nn.DataParallel) else net.module\n", "a = net\n"),
        ("net = net.module if isinstance(net, nn.DataParallel) else net\nuse(net)\n", "use(net)\n"),
        ("a = net.module if several and type(net) is nn.DataParallel else net\n", "a = net\n"),
        ("if hasattr(net, 'module'):\n    keep(net.module)  # old\nelse:\n    keep(net)  # new\n",
         "# old\nkeep(net)  # new\n"),
        ("if not hasattr(net, 'module'):\n    keep(net)\nelse:\n    keep(net.module)\n", "keep(net)\n"),
        ("if a:\n    keep(net)\nelif hasattr(net, 'module'):\n    keep(net.module)\nelse:\n    keep(net)\n",
         "keep(net)\n"),
        ("if hasattr(net, 'module'):\n    net = net.module\nuse(net)\n", "use(net)\n"),
        ("def bare(m):\n    if isinstance(m, nn.DataParallel):\n        return m.module\n    return m\n\n\n"
         "bare(net)\n", "\n\ndef bare(m):\n    return m\n\n\nbare(net)\n"),
    ],
)  # fmt: skip
def test_where_both_ways_are_the_model_itself_the_question_goes(code: str, expected: str) -> None:
    assert left(code).lstrip("\n") == expected.lstrip("\n")
    assert [rule for rule, _ in findings(TOP + code, *PASSES) if rule != "XLA121"] == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("a = (net.module if opts.gpus > 1 else net).state_dict()\n", "a = net.state_dict()\n"),
        ("if several:\n    a = net.module.state_dict()\nelse:\n    a = net.state_dict()\n",
         "a = net.state_dict()\n"),
        ("if a > 1:\n    b = f(net)\nelif a:\n    b = f(net.module)\nelse:\n    b = f(net)\n",
         "b = f(net)\n"),
    ],
)  # fmt: skip
def test_a_choice_that_is_made_by_something_else_goes_as_well(code: str, expected: str) -> None:
    assert left(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        "a = f(net.module) if ready() else f(net)\n",
        "a = f(net.module) if several else g(net)\n",
        "if several:\n    a = f(net.module)\nelse:\n    b = f(net)\n",
        "if several:\n    a = f(net.module)\nelif ready():\n    a = f(net)\nelse:\n    a = f(net)\n",
        "if several:\n    f(net.module)\n",
    ],
)
def test_a_choice_of_two_things_stays(code: str) -> None:
    assert left(code) == code.replace("net.module", "net")


@pytest.mark.parametrize(
    "code",
    [
        "assert isinstance(net, nn.DataParallel), 'wrap it'\n",
        "if not isinstance(net, nn.DataParallel):\n    raise TypeError('wrap it')\n",
        "if type(net) is not nn.DataParallel:\n    raise TypeError('wrap it')\n",
    ],
)
def test_a_check_that_a_model_is_wrapped_goes(code: str) -> None:
    assert left(code + "use(net)\n").strip() == "use(net)"


@pytest.mark.parametrize(
    "code",
    [
        "if isinstance(net, nn.DataParallel):\n    print('several GPUs')\n",
        "if isinstance(net, nn.DataParallel):\n    a = 1\nelse:\n    a = 2\n",
        "lr = 0.1 * 2 if isinstance(net, nn.DataParallel) else 0.1\n",
        "def parallel(m):\n    return type(m) in (nn.DataParallel, nn.DataParallel)\n\n\nparallel(net)\n",
        "assert not isinstance(net, nn.DataParallel)\n",
        "assert type(net) is not nn.DataParallel\n",
        "if isinstance(net, nn.DataParallel):\n    raise TypeError('take it out')\n",
    ],
)
def test_what_else_it_decides_is_told(code: str) -> None:
    assert left(code).endswith(code)
    assert [rule for rule, _ in findings(TOP + code, *PASSES)] == ["XLA121", "XLA126"]


def test_of_replicas_both_wrappers_go() -> None:
    code = launched(
        "model = DDP(torch.nn.Linear(2, 2).cuda())",
        "kinds = (torch.nn.DataParallel, DDP)",
        "if isinstance(model, (torch.nn.DataParallel, DDP)):",
        "    torch.save(model.module.state_dict(), 'a.pt')",
        "else:",
        "    torch.save(model.state_dict(), 'a.pt')",
    )
    text = migrate(code).data.decode()
    assert "(model)\n    kinds" in text
    assert "\n    xm.save(model.state_dict(), 'a.pt')\n" in text
    assert "isinstance" not in text


def test_to_ask_for_the_wrapper_of_replicas_makes_a_program_none_of_replicas() -> None:
    for test in ("isinstance(net, {})", "type(net) is {}", "type(net) in ({}, nn.Linear)"):
        outcome = migrate(f"{TOP}if {test.format('nn.parallel.DistributedDataParallel')}:\n    print(1)\n")
        assert not outcome.failed
        assert [f.code for f in outcome.findings] == ["XLA121"]


def test_a_model_that_another_wrapper_may_hold_is_asked_as_before() -> None:
    code = TOP + "net = nn.parallel.DistributedDataParallel(net) if many else net\n"
    code += 'if hasattr(net, "module"):\n    print(1)\n'
    alone = Settings(distributed=False)
    assert run_only(code, *PASSES, settings=alone).endswith('if hasattr(net, "module"):\n    print(1)\n')
    assert "XLA126" not in [rule for rule, _ in findings(code, *PASSES, settings=alone)]
