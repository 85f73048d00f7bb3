from __future__ import annotations

import pytest
from transforms.helpers import findings, run_only
from transforms.replicated import launched, spawned

from xla_transforms.engine import migrate_program


@pytest.mark.parametrize(
    "code",
    [
        spawned('device = torch.device("cuda", rank)', "net = torch.nn.Linear(2, 2).to(device)"),
        spawned("pass", before='\n\ndef place():\n    return torch.device("cuda")\n'),
        spawned("pass", before='\nCPU = torch.device("cpu")\n'),
        launched("net = torch.nn.Linear(2, 2).cuda()"),
    ],
)
def test_devices_of_the_processes_themselves(code: str) -> None:
    assert findings(code, "early_devices") == []


@pytest.mark.parametrize(
    "line",
    ["net = torch.nn.Linear(2, 2).cuda()", 'x = torch.ones(2).to("cuda")'],
)
@pytest.mark.parametrize("indent", ["", "    "])
def test_a_device_in_front_of_the_launch_is_an_error(line: str, indent: str) -> None:
    code = spawned("pass")
    mark = "\n\ndef worker" if not indent else "    n = torch.cuda"
    code = code.replace(mark, f"\n{line}\n{mark}" if not indent else f"    {line}\n{mark}")
    assert [rule for rule, _ in findings(code, "early_devices")] == ["XLA168"]


@pytest.mark.parametrize(
    "line",
    [
        'device = torch.device("cuda")',
        "device = torch.accelerator.current_accelerator()",
        'def make(net, device=torch.device("cuda", 0)):\n    net.to(device)',
    ],
)
def test_a_device_that_is_only_named_in_front_of_the_launch_is_named_without_the_runtime(line: str) -> None:
    code = spawned("pass", before=f"\n\n{line}\n")
    assert findings(code, "early_devices") == []
    text = run_only(code, "device")
    assert 'torch.device("xla")' in text
    assert "torch_xla.device()" not in text


def test_a_text_in_front_of_the_launch_stays_one() -> None:
    code = spawned("net = torch.nn.Linear(2, 2).to(DEVICE)", before='\nDEVICE = "cuda"\n')
    assert 'DEVICE = "xla"\n' in run_only(code, "device")


def test_a_script_beside_those_that_launch_starts_no_processes() -> None:
    alone = "import torch\nfrom net import make\nnet = torch.nn.Linear(2, 2).cuda()\n"
    started = launched("make()", before="from net import make\n")
    files = {"net.py": "def make():\n    return 1\n", "a.py": started, "b.py": alone}
    done = migrate_program({path: text.encode() for path, text in files.items()})
    assert [f.code for f in done["b.py"].findings] == []
    assert "torch_xla.device()" in done["b.py"].code
    early = files | {"a.py": files["a.py"].replace("from net", "import b\nfrom net")}
    done = migrate_program({path: text.encode() for path, text in early.items()})
    assert [f.code for f in done["b.py"].findings] == ["XLA168"]


def test_a_device_of_the_processes_is_the_runtimes() -> None:
    text = run_only(spawned('device = torch.device("cuda", rank)'), "device")
    assert "    device = torch_xla.device()\n" in text
