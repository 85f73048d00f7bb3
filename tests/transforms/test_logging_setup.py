"""Logging is set up by the import of torch_xla, before the script does."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, findings

from xla_transforms import engine

HEAD = "import logging\nimport torch\nmodel = torch.nn.Linear(4, 2).cuda()\n"


@pytest.mark.parametrize(
    "line",
    [
        "logging.basicConfig()",
        "logging.basicConfig(level=10, force=True)",
        "logging.getLogger('train').setLevel(10)",
        "ours.basicConfig(level=10)",
    ],
)
def test_what_takes_effect_as_it_is_stays(line: str) -> None:
    check_noop(HEAD + line + "\n", "logging_setup")


def test_a_script_without_cuda_stays() -> None:
    check_noop("import logging\nimport torch\nlogging.basicConfig(level=10)\n", "logging_setup")


def test_the_script_has_its_level_and_its_file() -> None:
    code = HEAD + "logging.basicConfig(\n    filename='log.txt',\n    level=20{0},  # all of it\n)\n"
    check_transformed(code.format(""), code.format(", force=True"), "logging_setup", rules={"XLA272"})


def test_each_way_of_a_condition_sets_up_its_own() -> None:
    call = "    logging.basicConfig(level={0})\n"
    code = f"{HEAD}if quiet:\n{call}else:\n{call}"
    check_transformed(code.format("30"), code.format("30, force=True"), "logging_setup")


def test_of_several_calls_the_first_counted_natively() -> None:
    code = HEAD + "logging.basicConfig(level=30)\nlogging.basicConfig(level=20)\n"
    check_noop(code, "logging_setup")
    assert findings(code, "logging_setup") == [("XLA273", 4), ("XLA273", 5)]


def test_options_that_may_hold_a_force_are_told() -> None:
    code = HEAD + "logging.basicConfig(**options)\n"
    check_noop(code, "logging_setup")
    assert findings(code, "logging_setup") == [("XLA273", 4)]


def test_scripts_of_one_program_set_up_each_their_own() -> None:
    script = HEAD + "import parts\nlogging.basicConfig(level=20)\n"
    files = {"train.py": script, "test.py": script, "parts.py": "import torch\nx = torch.ones(1).cuda()\n"}
    outcomes = engine.migrate_program({path: text.encode() for path, text in files.items()})
    texts = [outcomes[path].code for path in ("train.py", "test.py")]
    assert all("logging.basicConfig(level=20, force=True)" in text for text in texts)


def test_a_module_and_the_script_that_imports_it_are_told() -> None:
    module = HEAD + "logging.basicConfig(level=30)\n"
    files = {"train.py": HEAD + "import parts\nlogging.basicConfig(level=20)\n", "parts.py": module}
    outcomes = engine.migrate_program({path: text.encode() for path, text in files.items()})
    assert all("XLA273" in {f.code for f in outcomes[path].findings} for path in files)
