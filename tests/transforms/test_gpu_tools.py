"""Commands, variables, versions and profilers of CUDA's are told; those that do no harm are not."""

from __future__ import annotations

import pytest
from helpers import findings, migrate

from xla_transforms.settings import Settings

HEAD = "import os, subprocess, sys, torch\nmodel = torch.nn.Linear(4, 2).cuda()\n"


@pytest.mark.parametrize(
    "line",
    [
        "print(torch.version.cuda, torch.backends.cudnn.version())",
        "known = torch.version.cuda is None",
        'os.system("echo torchrun.txt nvidia-smi.log")',
        'subprocess.run(["pip", "install", "accelerate"])',
        'os.system("accelerate launch --tpu train.py")',
        'subprocess.run(["git", "status"])',
        'print("nvidia-smi", "torchrun train.py")',
        'os.environ["OMP_NUM_THREADS"] = "1"',
        'name = "CUDA is not there"',
        "torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])",
        "torch.autograd.profiler.profile()",
        'if not torch.cuda.is_available():\n    gpus = os.environ["CUDA_VISIBLE_DEVICES"]',
    ],
)
def test_what_does_no_harm_is_not_told(line: str) -> None:
    assert findings(HEAD + line + "\n", "gpu_tools") == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('os.system("nvidia-smi")', "XLA209"),
        ('subprocess.check_output(["/usr/bin/nvidia-smi", "-q"])', "XLA209"),
        ('os.popen(f"nvidia-smi -i {model}").read()', "XLA209"),
        ('subprocess.run("torchrun --nproc_per_node 2 train.py", shell=True)', "XLA209"),
        ('subprocess.Popen([sys.executable, "-m", "torch.distributed.launch", "train.py"])', "XLA209"),
        ('os.system("CUDA_VISIBLE_DEVICES=1 python train.py")', "XLA209"),
        ('gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")', "XLA210"),
        ('gpus = os.getenv("CUDA_VISIBLE_DEVICES", "")', "XLA210"),
        ('os.environ.update({"CUDA_VISIBLE_DEVICES": "1"})', "XLA210"),
        ('subprocess.run(["python", "a.py"], env={**os.environ, "CUDA_VISIBLE_DEVICES": "0"})', "XLA210"),
        ('new = torch.version.cuda >= "11"', "XLA214"),
        ('new = float(torch.version.cuda) > 10', "XLA214"),
        ("major = torch.version.cuda.split('.')[0]", "XLA214"),
        ("new = torch.backends.cudnn.version() >= 7603", "XLA214"),
        ("torch.autograd.profiler.profile(use_cuda=True)", "XLA245"),
        ("from torch.profiler import ProfilerActivity\nkinds = [ProfilerActivity.CUDA]", "XLA245"),
    ],
)
def test_what_needs_cuda_is_told(line: str, code: str) -> None:
    found = findings(HEAD + line + "\n", "gpu_tools")
    assert [one for one, _ in found] == [code]


def test_a_variable_that_has_to_be_there_is_graver_than_one_that_may_be() -> None:
    code = HEAD + 'a = os.environ["CUDA_VISIBLE_DEVICES"]\nb = os.environ.get("CUDA_VISIBLE_DEVICES")\n'
    found = migrate(code, "gpu_tools").findings
    assert [one.severity.label for one in found] == ["warning", "info"]


def test_a_variable_that_goes_is_not_told_twice() -> None:
    code = HEAD + 'os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n'
    assert [one.code for one in migrate(code).findings] == ["XLA208"]


STARTS = [
    'os.system("torchrun --nproc_per_node=4 train.py")',
    'command = ["torchrun", "train.py"]\nsubprocess.run(command)',
    'subprocess.run([sys.executable, "-m", "torch.distributed.run", "train.py"])',
    'subprocess.run(["accelerate", "launch", "train.py"])',
]


@pytest.mark.parametrize("line", STARTS)
def test_a_script_that_only_starts_training_is_looked_at(line: str) -> None:
    code = f"import os, subprocess, sys\n{line}\n"
    assert findings(code) == [("XLA209", code.count("\n"))]


def test_a_script_that_only_speaks_of_a_launcher_is_left_alone() -> None:
    assert findings('import os\n# torchrun train.py\nos.system("python train.py")\nprint("torchrun")\n') == []


def test_who_starts_the_processes_depends_on_the_target() -> None:
    code = 'import os\nos.system("torchrun train.py")\n'
    (found,) = migrate(code, settings=Settings(target="2.1")).findings
    assert "xmp.spawn" in found.advice


STARTS = """\
import subprocess
import sys
import torch

gpus = torch.cuda.device_count()
print(torch.cuda.get_device_name(0))
for rank in range({}):
    subprocess.Popen([sys.executable, *sys.argv[1:], f"--rank={{rank}}"])
"""


@pytest.mark.parametrize("count", ["gpus", "torch.cuda.device_count()"])
def test_a_command_that_starts_a_process_for_each_gpu_is_told(count: str) -> None:
    assert findings(STARTS.format(count), "gpu_tools") == [("XLA209", 8)]


def test_a_command_that_starts_other_processes_is_not_told() -> None:
    assert findings(STARTS.format("4"), "gpu_tools") == []
