"""Commands that start training, in shell scripts, makefiles, Dockerfiles and notebooks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import Cli

from xla_migrate import migrate_project
from xla_migrate.launches import examine, is_launcher

XLA = " (torch_xla.launch in the script starts one process a device; PJRT_DEVICE chooses the device)"


def found(text: str, path: str = "run.sh") -> list[tuple[str, int]]:
    return [(f.code, f.span.line) for f in examine(path, text.encode())]


def advice(text: str) -> str:
    (finding,) = examine("run.sh", text.encode())
    return finding.advice


@pytest.mark.parametrize(
    "name",
    ["a/b.sh", "a.slurm", "Makefile", "justfile", "Dockerfile", "Dockerfile.gpu", "a.mk", "a.yml"],
)
def test_files_that_are_looked_into(name: str) -> None:
    assert is_launcher(name)


@pytest.mark.parametrize("name", ["train.py", "run.sh.txt", "Makefile.py", "notes.txt", "demo.ipynb"])
def test_files_that_are_not(name: str) -> None:
    assert not is_launcher(name)


@pytest.mark.parametrize(
    "line",
    [
        "python train.py --lr 0.1",
        "# torchrun train.py",
        "python train.py  # not torchrun train.py",
        "pip install deepspeed accelerate",
        "accelerate config",
        "accelerate launch --tpu train.py",
        "python -m torch.utils.collect_env",
        "echo 'use torchrun'",
        "which torchrun",
        "echo 'use torchrun train.py'",
        "mpirun -np 4 ./solver",
    ],
)
def test_other_commands_are_not_named(line: str) -> None:
    assert found(line + "\n") == []


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("torchrun --nproc_per_node=4 train.py --lr 0.1", "python train.py --lr 0.1" + XLA),
        ('python -m torch.distributed.launch t.py --name "a b" $A', 'python t.py --name "a b" $A' + XLA),
        ("python3.11 -m torch.distributed.run --nnodes 2 train.py", "python train.py" + XLA),
        ("OMP_NUM_THREADS=1 deepspeed --num_gpus 2 t.py", "python t.py" + XLA),
        ("cd src && bin/torchrun t.py  # all GPUs", "python t.py" + XLA),
        ("torchrun -m package.train --lr 1", "python -m package.train --lr 1" + XLA),
        ("mpirun -np 4 python t.py", "python t.py" + XLA),
        ("$PYTHON -m torch.distributed.run t.py", "python t.py" + XLA),
        ("nohup torchrun t.py > log 2>&1 &", "python t.py > log 2>&1" + XLA),
        ("srun bash -c 'torchrun t.py'", "python t.py" + XLA),
        ('CMD="torchrun --nnodes 2 t.py"', "python t.py" + XLA),
        (
            "python -m accelerate.commands.launch t.py",
            "accelerate launch --tpu t.py (it calls main() of the script in one process a device)",
        ),
        (
            "accelerate launch --mixed_precision fp16 t.py",
            "accelerate launch --tpu --mixed_precision bf16 t.py "
            "(it calls main() of the script in one process a device)",
        ),
        (
            "accelerate launch --num_processes 8 t.py --fast",
            "accelerate launch --tpu t.py --fast (it calls main() of the script in one process a device)",
        ),
    ],
)
def test_the_command_to_use_is_told(line: str, instead: str) -> None:
    assert advice(line + "\n") == "use: " + instead


def test_lines_that_go_on_are_one_command() -> None:
    text = "#!/bin/sh\n\ntorchrun --nproc_per_node 4 \\\n    train.py \\\n    --lr 0.1\necho done\n"
    assert found(text) == [("XLA941", 3)]
    assert advice(text) == "use: python train.py --lr 0.1" + XLA


@pytest.mark.parametrize("line", ["export CUDA_VISIBLE_DEVICES=0,1", "CUDA_VISIBLE_DEVICES=0 python t.py"])
def test_the_choice_of_gpus_is_named(line: str) -> None:
    assert found(line + "\n") == [("XLA942", 1)]


def test_recipes_of_makefiles() -> None:
    assert found("train: data\n\t@torchrun train.py $(ARGS)\n", "Makefile") == [("XLA941", 2)]


def test_instructions_of_dockerfiles() -> None:
    text = 'FROM base\nENV CUDA_VISIBLE_DEVICES=0\nCMD ["torchrun", "train.py"]\nENTRYPOINT torchrun b.py\n'
    assert found(text, "Dockerfile") == [("XLA942", 2), ("XLA941", 3), ("XLA941", 4)]
    assert found("ENV CUDA_VISIBLE_DEVICES 0\n", "Dockerfile") == [("XLA942", 1)]


def test_commands_of_yaml() -> None:
    text = 'a:\n  - command: ["torchrun", "train.py"]\n    about: torchrun starts it\n  run: torchrun t.py\n'
    assert found(text, "pod.yaml") == [("XLA941", 2), ("XLA941", 4)]


@pytest.mark.parametrize(
    ("text", "line", "instead"),
    [
        ("run: >\n  torchrun --nproc_per_node 4\n  train.py --lr 1\nname: x\n", 2, "python train.py --lr 1"),
        ("- run: >-\n    torchrun\n    train.py\n", 2, "python train.py"),
        ("run: torchrun --nproc_per_node 4\n  train.py\nnext: 1\n", 1, "python train.py"),
        ("run: |\n  cd src\n  torchrun train.py --lr 1\n", 3, "python train.py --lr 1"),
        ("run: |\n  torchrun \\\n    train.py\n  echo\n", 2, "python train.py"),
        ("command:\n  - torchrun\n  - --nproc_per_node=4\n  - train.py\n", 2, "python train.py"),
        ("command:\n- bash\n- -c\n- torchrun train.py\n", 2, "python train.py"),
        ("command: [torchrun, 'train.py']\n", 1, "python train.py"),
        ('command: ["torchrun"]\nargs: ["train.py", "--lr", "1"]\n', 1, "python train.py --lr 1"),
        ("command:\n  - torchrun\nargs:\n  - train.py\n", 2, "python train.py"),
        ("script:\n  - make\n  - torchrun train.py\n", 3, "python train.py"),
        ("a:\n  # how it starts\n  - run: 'torchrun train.py'\n", 3, "python train.py"),
    ],
)
def test_commands_of_yaml_over_several_lines(text: str, line: int, instead: str) -> None:
    (finding,) = examine("job.yaml", text.encode())
    assert (finding.span.line, finding.advice) == (line, f"use: {instead}{XLA}")


@pytest.mark.parametrize(
    "text",
    [
        "about: >\n  torchrun is what\n  starts it\n",
        "pip:\n  - torch\n  - accelerate\n  - deepspeed\n",
        "command:\n  - python\n  - train.py\n",
    ],
)
def test_other_texts_of_yaml(text: str) -> None:
    assert found(text, "job.yml") == []


@pytest.mark.parametrize(
    "text",
    [
        "srun python train.py\n",
        "#SBATCH --ntasks-per-node=1\n#SBATCH --nodes=4\nsrun python train.py\n",
        "srun -n 1 python train.py -n 5\n",
        "#SBATCH --ntasks=8\nsrun hostname\npython train.py\n",
        "#SBATCH -n 8\nsrun --ntasks-per-node=1 python train.py\n",
    ],
)
def test_a_task_on_each_host_is_fine(text: str) -> None:
    assert found(text, "job.slurm") == []


@pytest.mark.parametrize(
    "text",
    [
        "#SBATCH --ntasks-per-node=4\nsrun python train.py\n",
        "#SBATCH -n 8\nsrun --gres=gpu:8 python3 -u train.py\n",
        "\nsrun -n4 python train.py\n",
        "\nsrun --ntasks $N --gpus-per-task 1 .venv/bin/python -m pkg.train\n",
    ],
)
def test_a_task_for_each_gpu_is_named(text: str) -> None:
    assert found(text, "job.slurm") == [("XLA941", 2)]


README = """\
We start torchrun on each host; `torchrun --help` tells how.

```python
os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # as torchrun train.py
```
"""
COMMANDS = """\
```bash
python -m torch.distributed.launch --nproc_per_node=4 \\
    train.py
```
Or `torchrun train.py`, or

    $ CUDA_VISIBLE_DEVICES=0 python train.py
"""


@pytest.mark.parametrize("name", ["README.md", "README", "usage.rst", "docs/TRAINING.MD"])
def test_texts_that_people_read_are_looked_into(name: str) -> None:
    assert is_launcher(name)
    assert found(README, name) == []
    assert found(COMMANDS, name) == [("XLA941", 2), ("XLA941", 5), ("XLA942", 7)]
    assert {f.severity.label for f in examine(name, COMMANDS.encode())} == {"info"}


def test_the_command_of_a_text_is_told_whole() -> None:
    assert examine("README.md", COMMANDS.encode())[0].advice.startswith("use: python train.py ")


CONFIG = "compute_environment: LOCAL_MACHINE\ndistributed_type: {}\nmixed_precision: {}\n"


@pytest.mark.parametrize(
    "text",
    [
        CONFIG.format("XLA", "bf16"),
        CONFIG.format("'NO'", "'no'"),
        CONFIG.format("XLA", "bf16") + "dynamo_config:\n  dynamo_backend: 'NO'\n",
        "mixed_precision: fp16\n# distributed_type\n",
    ],
)
def test_a_config_that_is_not_for_gpus_is_no_finding(text: str) -> None:
    assert found(text, "default_config.yaml") == []


def test_a_config_of_accelerate_for_gpus_is_told() -> None:
    text = CONFIG.format("MULTI_GPU", "fp16  # half") + "dynamo_config:\n  dynamo_backend: INDUCTOR\n"
    assert found(text, "default_config.yaml") == [("XLA943", 2), ("XLA943", 3), ("XLA943", 5)]
    assert "distributed_type: XLA" in examine("c.yml", text.encode())[0].advice


def test_lines_of_notebooks() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["!torchrun in.py\n"]},
        {"cell_type": "code", "source": ["import torch\n", '!torchrun train.py --name "x"\n', "%env A=1"]},
        {"cell_type": "code", "source": "%%bash\ntorchrun other.py\n"},
    ]
    text = json.dumps({"nbformat": 4, "cells": cells}, indent=1)
    lines = [n for n, line in enumerate(text.split("\n"), 1) if "train.py" in line or "other.py" in line]
    assert found(text, "demo.ipynb") == [("XLA941", n) for n in lines]
    assert len(lines) == 2


@pytest.mark.parametrize("text", ["torchrun", "{}", '{"cells": 3}', '{"cells": [{"torchrun": 1}]}'])
def test_a_notebook_that_is_none_has_no_lines(text: str) -> None:
    assert found(text, "demo.ipynb") == []


def test_bytes_that_are_no_text() -> None:
    assert examine("run.sh", b"\xff\xfe torchrun 'a\n") != ()


def test_a_folder_reports_its_launchers_and_edits_none(here: Path, cli: Cli) -> None:
    (here / "train.py").write_text("x = 1\n")
    (here / "run.sh").write_text("torchrun train.py\n")
    (here / "other.sh").write_text("echo hello\n")
    ran = cli("--inplace", ".")
    assert ran.code == 0
    assert "run.sh: 1 warning\n  warning XLA941 cuda-launch-command:" in ran.text
    assert "2 files" in ran.text
    assert (here / "run.sh").read_text() == "torchrun train.py\n"
    report = json.loads(cli("--output-format", "json", ".").text)
    assert [(f["path"], f["code"], f["line"]) for f in report["findings"]] == [("run.sh", "XLA941", 1)]


def test_a_launcher_can_be_named(here: Path, cli: Cli) -> None:
    (here / "other.sh").write_text("echo hello\n")
    assert "nothing to migrate in 1 file; no findings" in cli("other.sh").text


def test_the_library_reports_them_too(here: Path) -> None:
    (here / "train.py").write_text("x = 1\n")
    (here / "Dockerfile").write_text("CMD torchrun train.py\n")
    results = migrate_project(".")
    assert [f.code for f in results["Dockerfile"].findings] == ["XLA941"]
    assert not results["Dockerfile"].changed
