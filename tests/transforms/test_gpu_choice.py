from __future__ import annotations

import pytest
from transforms.helpers import findings

HEAD = "import argparse\nimport torch\nargs = argparse.ArgumentParser().parse_args()\n"


@pytest.mark.parametrize(
    "line",
    [
        'device = torch.device("cuda:0")',
        'device = torch.device("cuda", 1)',
        'print(f"{args.gpu}:{args.lr}", torch.device("cuda"))',
        'torch.distributed.init_process_group("nccl")\ndevice = f"cuda:{torch.distributed.get_rank()}"',
        'import os\nrank = int(os.environ["LOCAL_RANK"])\ndevice = torch.device("cuda", rank)',
    ],
)
def test_numbers_that_nobody_chooses(line: str) -> None:
    assert findings(HEAD + line + "\n", "gpu_choice") == []


@pytest.mark.parametrize(
    "line",
    [
        'device = torch.device(f"cuda:{args.gpu}")',
        'device = f"cuda:{args.gpu}" if torch.cuda.is_available() else "cpu"',
        'device = torch.device("cuda", args.gpu)',
        'device, other = torch.device("cuda", args.gpu), torch.device(f"cuda:{args.gpu}")',
    ],
)
def test_an_option_that_chose_a_gpu_is_told_once(line: str) -> None:
    assert findings(HEAD + line + "\n", "gpu_choice") == [("XLA118", 4)]
