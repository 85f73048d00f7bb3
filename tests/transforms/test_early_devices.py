from __future__ import annotations

import pytest
from transforms.helpers import findings
from transforms.replicated import launched, spawned


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
    ['device = torch.device("cuda")', "net = torch.nn.Linear(2, 2).cuda()", 'x = torch.ones(2).to("cuda")'],
)
@pytest.mark.parametrize("indent", ["", "    "])
def test_a_device_in_front_of_the_launch_is_an_error(line: str, indent: str) -> None:
    code = spawned("pass")
    mark = "\n\ndef worker" if not indent else "    n = torch.cuda"
    code = code.replace(mark, f"\n{line}\n{mark}" if not indent else f"    {line}\n{mark}")
    assert [rule for rule, _ in findings(code, "early_devices")] == ["XLA168"]
