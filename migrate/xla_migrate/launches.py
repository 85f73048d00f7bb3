"""Commands that start training on CUDA, in files that are no Python: found, and never edited.

Shell scripts, makefiles, Dockerfiles, texts such as READMEs and the shell lines of notebooks. Sources:
pytorch/xla v2.9.0 (``torch_xla.launch`` starts one process a device; ``core/xla_env_vars.py``); accelerate
v1.15 (``commands/launch.py``: ``--tpu`` calls the script's ``main``); the launchers' own command lines.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import starmap
from typing import NamedTuple

from xla_migrate import accelerate_configs
from xla_migrate.notebooks import is_notebook
from xla_migrate.notebooks.commands import shell_lines
from xla_migrate.prose_commands import blocks
from xla_migrate.yaml_commands import commands
from xla_transforms.findings import Finding, Rule, Safety, Severity, Span

COMMAND = Rule(
    "XLA941",
    "cuda-launch-command",
    "A command starts training by a launcher for CUDA's process groups.",
    "On XLA the script itself starts one process a device, by torch_xla.launch (pytorch/xla v2.9.0); started "
    "by torchrun, each process would train alone on devices that are not TPUs.",
    Severity.WARNING,
    Safety.DISPLAY,
)
VISIBLE = Rule(
    "XLA942",
    "cuda-visible-devices",
    "A command chooses GPUs by CUDA_VISIBLE_DEVICES.",
    "torch_xla does not ask it: PJRT_DEVICE chooses the kind of device (pytorch/xla v2.9.0, runtime.py).",
    Severity.INFO,
    Safety.DISPLAY,
)
CONFIG = Rule(
    "XLA943",
    "accelerate-config",
    "A config of Accelerate is for GPUs.",
    "accelerate launch does what it says: it starts processes of GPUs, which find none (accelerate v1.16, "
    "commands/launch.py).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (COMMAND, VISIBLE, CONFIG)

_NAMES = re.compile(
    r".*\.(?:sh|bash|zsh|slurm|sbatch|mk|dockerfile|ya?ml|md|rst)|(?:GNU)?makefile|justfile|"
    r"Dockerfile(?:\..*)?|README(?:\.txt)?",
    re.IGNORECASE,
)
_PROSE = re.compile(r".*\.(?:md|rst)|README(?:\.txt)?", re.IGNORECASE)
_PROMPT = re.compile(r"^(?:\(\w+\) )?[$%>] +")
_INSTRUCTION = re.compile(r"(?:CMD|ENTRYPOINT|RUN|ENV)\s+", re.IGNORECASE)
_SEPARATOR = re.compile(r"&&|\|\||[;|]|(?<!>)&(?!>)")  # and not the & of 2>&1
_PYTHON = re.compile(r"python[\d.]*")
_ASSIGNED = re.compile(r"\w+=")
_MODULES = {
    "torch.distributed.launch": "torch.distributed.launch",
    "torch.distributed.run": "torch.distributed.run",
    "accelerate.commands.launch": "accelerate launch",
}
_MPI = ("mpirun", "mpiexec")
_STARTERS = ("torchrun", "torch.distributed", "accelerate", "deepspeed", "horovodrun", "srun", *_MPI)
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_HINTS = (*_STARTERS, _VISIBLE, accelerate_configs.MARK)
_SCRIPT = re.compile(r"\.py\b|\s-m\s")
_SLURM = re.compile(r"^#SBATCH\s(.*)", re.MULTILINE)
_TASKS = re.compile(r"(?<!\S)(?:-n ?|--ntasks(?:-per-(?:node|gpu))?[= ]|--tasks-per-node[= ])(\S+)")
_CHIPS = "leave it out; PJRT_DEVICE chooses the kind of device, on TPUs TPU_VISIBLE_CHIPS the chips"
_COMMENT = re.compile(r"\s#[^'\"]*$")
_SPAWNS = "(torch_xla.launch in the script starts one process a device; PJRT_DEVICE chooses the device)"


class _Line(NamedTuple):
    """A command as it is written, with where it starts in the text of its file."""

    offset: int
    text: str


def is_launcher(path: str) -> bool:
    """Whether a file is one of commands, which may start training: a shell script, a Dockerfile."""
    return _NAMES.fullmatch(os.path.basename(path)) is not None


def examine(path: str, data: bytes) -> tuple[Finding, ...]:
    """What must be known about the commands of a file."""
    text = data.decode("utf-8", "replace")
    if not any(hint in text for hint in _HINTS):
        return ()
    prose = _PROSE.fullmatch(os.path.basename(path)) is not None
    found = [finding for line in _lines(path, data, text) for finding in _of_line(text, line)]
    if prose:  # which nothing runs
        found = [replace(finding, severity=Severity.INFO) for finding in found]
    if _is_yaml(path):
        told = accelerate_configs.told(text)
        found += [_finding(CONFIG, text, _Line(at, ""), message, advice) for at, message, advice in told]
    return tuple(dict.fromkeys(found))


def _is_yaml(path: str) -> bool:
    return path.lower().endswith((".yml", ".yaml"))


def _lines(path: str, data: bytes, text: str) -> Iterator[_Line]:
    """The commands of a file; of what may be some in YAML and in prose many lines only speak of launchers."""
    if is_notebook(path):
        yield from starmap(_Line, shell_lines(data))
    elif _is_yaml(path):
        yield from (line for line in starmap(_Line, commands(text)) if _runs(line, _VISIBLE))
    elif _PROSE.fullmatch(os.path.basename(path)):
        every = (line for start, block in blocks(text) for line in _logical_lines(block, start))
        yield from (line for line in every if _runs(line, f"{_VISIBLE}="))
    else:
        yield from _logical_lines(text)


def _runs(line: _Line, chosen: str) -> bool:
    return chosen in line.text or _SCRIPT.search(line.text) is not None


def _logical_lines(text: str, offset: int = 0) -> Iterator[_Line]:
    """Lines without comments, those that end in a backslash joined with the next one."""
    joined, start = "", offset
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        if not joined:
            start = offset + len(bare) - len(bare.lstrip())
        offset += len(line)
        if bare.lstrip().startswith("#"):
            continue
        joined += bare.lstrip() if not joined else " " + bare.strip()
        if joined.endswith("\\"):
            joined = joined[:-1].rstrip()
            continue
        if joined:
            yield _Line(start, _PROMPT.sub("", joined.lstrip("@-"), count=1))
        joined = ""
    if joined:
        yield _Line(start, joined)


def _of_line(text: str, line: _Line) -> Iterator[Finding]:
    instruction = _INSTRUCTION.match(line.text)
    written = line.text[instruction.end() :] if instruction else line.text
    if written.startswith("["):
        try:
            written = shlex.join(map(str, json.loads(written)))
        except ValueError:
            return
    for command in _SEPARATOR.split(written):
        yield from _of_command(text, line, _COMMENT.sub("", command))


def _of_command(text: str, line: _Line, command: str) -> Iterator[Finding]:
    words = _words(command)
    if any(word.startswith(f"{_VISIBLE}=") for word in words) or words[:1] == [_VISIBLE]:
        yield _finding(VISIBLE, text, line, "CUDA_VISIBLE_DEVICES chooses nothing on XLA", _CHIPS)
    launcher, rest = _launcher(words)
    if not launcher and _several_tasks(text, words):
        advice = f"give each host one task, --ntasks-per-node=1 {_SPAWNS}"
        yield _finding(COMMAND, text, line, "srun starts one process a task", advice)
    if launcher and not (launcher == "accelerate launch" and "--tpu" in rest):
        advice = f"use: {_instead(launcher, command, rest)}"
        yield _finding(COMMAND, text, line, f"{launcher} starts processes for CUDA", advice)
    for before, word in () if launcher else zip(("", *words), words, strict=False):
        value = _ASSIGNED.sub("", word, count=1)
        if " " in value and (value != word or before == "-c"):  # CMD="torchrun ...", bash -c "torchrun ..."
            yield from _of_command(text, line, value)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command, comments=True)
    except ValueError:  # a quote that this line does not close
        return command.split()


def _launcher(words: list[str]) -> tuple[str, list[str]]:
    """The launcher that a command calls, and the words behind it."""
    for position, word in enumerate(words):
        name, after = os.path.basename(word), words[position + 1 :]
        if name in ("torchrun", "horovodrun") and after:
            return name, after
        if name == "deepspeed" and after and (position == 0 or "=" in words[position - 1]):
            return name, after
        if name == "accelerate" and after[:1] == ["launch"]:
            return "accelerate launch", after[1:]
        if name in _MPI and any(_PYTHON.fullmatch(os.path.basename(w)) for w in after):
            return name, after
        if word == "-m" and after and after[0] in _MODULES:
            return _MODULES[after[0]], after[1:]
    return "", []


def _several_tasks(text: str, words: list[str]) -> bool:
    """Whether a command starts a script in several tasks of Slurm, as it or the file's head says."""
    python = next((i for i, word in enumerate(words) if _PYTHON.fullmatch(os.path.basename(word))), 0)
    if not python or os.path.basename(words[0]) != "srun":
        return False
    told = _TASKS.findall(" ".join(words[1:python])) or _TASKS.findall("\n".join(_SLURM.findall(text)))
    return any(number != "1" for number in told)


def _instead(launcher: str, command: str, rest: list[str]) -> str:
    """The command to write in a launcher's place, with the script's own arguments as they are written."""
    script = next((word for word in rest if word.endswith(".py")), "")
    module = next((word for word in rest if word in ("-m", "--module")), "")
    if not script and module and launcher != "accelerate launch":
        return f"python -m{command.rpartition(f' {module}')[2].rstrip()} {_SPAWNS}"
    if not script:
        return f"python <the script> {_SPAWNS}"
    arguments = script + command.partition(script)[2].rstrip()
    if launcher == "accelerate launch":
        half = any(word.removeprefix("--mixed_precision=") in ("fp16", "fp8") for word in rest)
        options = "--tpu --mixed_precision bf16" if half else "--tpu"
        ending = "(it calls main() of the script in one process a device)"
        return f"accelerate launch {options} {arguments} {ending}"
    return f"python {arguments} {_SPAWNS}"


def _finding(rule: Rule, text: str, line: _Line, message: str, advice: str) -> Finding:
    start = line.offset
    end = text.find("\n", start) if "\n" in text[start:] else len(text)
    number = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    span = Span(start, end, number, column, number, column + end - start)
    return Finding(rule.code, rule.name, rule.severity, message, span, advice)
