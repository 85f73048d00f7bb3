"""``--target auto``: what a project asks to have installed decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import Cli

from xla_migrate import migrate_file
from xla_migrate.releases import choose

SCRIPT = "import torch\nmodel = torch.nn.Linear(2, 2).cuda()\n"


def chosen(tmp_path: Path, files: dict[str, str]) -> tuple[str, str]:
    for name, text in {"train.py": SCRIPT, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".git").mkdir(exist_ok=True)
    found = choose([str(tmp_path / "train.py")])
    return found.target, found.reason


def test_a_project_that_says_nothing_gets_the_default(tmp_path: Path) -> None:
    assert chosen(
        tmp_path, {"requirements.txt": "numpy\ntorchvision==0.16\npytorch-lightning==2.1\ntorch\n"}
    ) == (
        "2.9",
        "nothing tells its release",
    )


@pytest.mark.parametrize(
    ("spec", "target"),
    [
        ("torch==2.1.0", "2.1"),
        ("torch==2.1.0+cu118", "2.1"),
        ("torch == 2.4.1  # for now", "2.1"),
        ("torch~=2.5.0", "2.5"),
        ("torch>=2.1,<2.5", "2.1"),
        ("torch>=2.1,<2.6", "2.5"),
        ("torch>=2.0", "2.9"),
        ("torch<2.9", "2.5"),
        ("torch==2.6.*", "2.5"),
        ("torch==1.13.1", "sagemaker"),
        ("torch==2.9.1", "2.9"),
        ("torch==2.9.1\ntorch_xla==2.1.0", "2.1"),
        ("torch-xla==2.7.0", "2.5"),
        ("torch_xla @ https://example.org/torch_xla-2.2.0-cp310-cp310-linux_x86_64.whl", "2.1"),
    ],
)
def test_requirements(tmp_path: Path, spec: str, target: str) -> None:
    name, reason = chosen(tmp_path, {"requirements.txt": spec + "\n"})
    assert name == target
    assert reason.endswith(" in requirements.txt")


@pytest.mark.parametrize(
    ("spec", "target"),
    [("torch==2.0.1", "2.1"), ("torch==1.8.0", "sagemaker"), ("torch==2.12", "2.9")],
)
def test_a_release_between_the_targets_gets_the_nearest_and_says_so(
    tmp_path: Path, spec: str, target: str
) -> None:
    name, reason = chosen(tmp_path, {"requirements.txt": spec + "\n"})
    assert (name, reason) == (
        target,
        f"{spec} in requirements.txt, which no target covers: the nearest",
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements/train.txt", "torch==2.3.0\n"),
        ("requirements-gpu.txt", "torch==2.3.0\n"),
        ("pyproject.toml", '[project]\nname = "x"\ndependencies = ["torch>=2.1,<2.4"]\n'),
        ("pyproject.toml", '[project]\nname = "x"\n[project.optional-dependencies]\ng = ["torch==2.3"]\n'),
        ("pyproject.toml", '[dependency-groups]\ntrain = ["torch==2.3.0"]\n'),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "~2.3"\n'),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = {version = "2.3.0", source = "x"}\n'),
        ("setup.cfg", "[options]\ninstall_requires =\n    torch>=2.1,<2.4\n"),
        ("setup.py", 'from setuptools import setup\nsetup(install_requires=["torch==2.3.0"])\n'),
        ("environment.yml", "dependencies:\n  - pytorch=2.3\n  - numpy\n"),
        ("environment.yml", "dependencies:\n  - pytorch::pytorch=2.3.0=py3.10_cuda\n"),
        ("environment.yaml", "dependencies:\n  - pip:\n    - torch==2.3.0\n"),
        ("Dockerfile", "FROM pytorch/pytorch:2.3.0-cuda12.1-cudnn8-runtime\n"),
        ("Dockerfile", "FROM python:3.10\nRUN pip install torch==2.3.0 torchvision\n"),
    ],
)  # fmt: skip
def test_files_that_ask_for_a_release(tmp_path: Path, name: str, text: str) -> None:
    target, reason = chosen(tmp_path, {name: text})
    assert target == "2.1"
    assert reason.endswith(f" in {Path(name).name}")


def test_a_comment_asks_for_nothing(tmp_path: Path) -> None:
    assert chosen(tmp_path, {"requirements.txt": "# torch==2.1.0\nnumpy\n"})[0] == "2.9"


def test_a_package_of_a_like_name_is_another(tmp_path: Path) -> None:
    text = "mytorch==2.1.0\ntorchaudio==2.1.0\nnot-torch==2.1.0\npytorch_lightning==2.1\n"
    assert chosen(tmp_path, {"requirements.txt": text})[0] == "2.9"


def test_an_image_of_the_training_compiler_means_sagemaker(tmp_path: Path) -> None:
    image = "FROM registry.example/pytorch-trcomp-training:1.13.1-gpu-py39\n"
    assert chosen(tmp_path, {"Dockerfile": image}) == (
        "sagemaker",
        "SageMaker Training Compiler in Dockerfile",
    )


def test_a_launcher_with_the_compilers_settings_means_sagemaker(tmp_path: Path) -> None:
    launcher = "from sagemaker.pytorch import PyTorch, TrainingCompilerConfig\n"
    files = {"launch.py": launcher, "requirements.txt": "torch==2.1.0\n"}
    assert chosen(tmp_path, files) == ("sagemaker", "SageMaker Training Compiler in launch.py")


def test_the_nearest_folder_decides_and_the_search_ends_at_the_repository(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==1.13.1\n")
    inner = tmp_path / "repository"
    assert chosen(inner, {"requirements.txt": "torch==2.1.0\n", "src/train.py": SCRIPT})[0] == "2.1"
    assert choose([str(inner / "src" / "train.py")]).target == "2.1"
    (inner / "requirements.txt").unlink()
    assert choose([str(inner / "src" / "train.py")]).target == "2.9"


def test_the_library_and_the_command_line_follow_it(tmp_path: Path, cli: Cli) -> None:
    chosen(tmp_path, {"requirements.txt": "torch==2.1.0\n"})
    script = str(tmp_path / "train.py")
    assert "xm.xla_device()" in migrate_file(script, target="auto").code
    assert "torch_xla.device()" in migrate_file(script).code
    shown = cli(script, "--target", "auto")
    assert "target 2.1 (torch==2.1.0 in requirements.txt)" in shown.text
    told = json.loads(cli(script, "--target", "auto", "--output-format", "json").text)
    assert (told["target"], told["target_reason"]) == ("2.1", "torch==2.1.0 in requirements.txt")
    assert "target 2" not in cli(script).text
