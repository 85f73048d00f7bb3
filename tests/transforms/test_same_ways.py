"""Choices between GPUs that choose nothing any more, and assignments of a name to itself."""

from __future__ import annotations

import pytest
from helpers import check_noop, migrate

HEAD = (
    "import argparse\nimport torch\nparser = argparse.ArgumentParser()\nargs = parser.parse_args()\n"
    "model = torch.nn.Linear(2, 2)\n"
)
USE = "model.to(device)\n"
FIRST = "if args.gpu:\n    device = torch.device('cuda:0')\n"


def after(code: str) -> str:
    return migrate(HEAD + code + USE).code.partition("Linear(2, 2)\n")[2].removesuffix(USE)


@pytest.mark.parametrize(
    "code",
    [
        'device = torch.device("cuda") if args.gpu else torch.device("cpu")\n',
        'device = torch.device("cuda:0") if ask() else torch.device("cuda")\n',
        'device = torch.device("cuda:0") if args.box.gpu else torch.device("cuda")\n',
        f"{FIRST}elif args.cpu:\n    device = torch.device('cuda')\nelse:\n    device = 'cpu'\n",
        f"{FIRST}else:\n    other = torch.device('cuda')\n",
        f"{FIRST}    print(1)\nelse:\n    device = torch.device('cuda')\n",
    ],
)
def test_a_choice_that_chooses_or_asks_something_stays(code: str) -> None:
    text = after(f"from ours import ask\n{code}")
    assert ("if args." in text) or ("ask()" in text)


def test_a_script_without_cuda_stays() -> None:
    check_noop(HEAD + 'device = "cpu" if args.cpu else "cpu"\n', "same_ways")


def test_two_names_of_the_device_are_no_choice() -> None:
    assert after('device = torch.device("cuda:0") if args.gpu else torch.device("cuda")\n') == (
        "device = torch_xla.device()\n"
    )
    code = 'if args.gpu >= 0:\n    # one\n    device = torch.device("cuda:0")\nelse:\n    # any\n'
    assert after(code + '    device = torch.device("cuda")\n') == (
        "# any\n# one\ndevice = torch_xla.device()\n"
    )


def test_a_model_is_not_assigned_to_itself() -> None:
    code = (
        "model = torch.nn.DataParallel(model).cuda()\n"
        'model = model.module if hasattr(model, "module") else model\nmodel = model.module\n'
        "inner = model.module\ndevice = model.weight.device\n"
    )
    assert "model = model\n" not in after(code)
    assert "inner = model\n" in after(code)
