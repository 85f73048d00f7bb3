"""Scripts that share modules, and modules that are migrated without their scripts."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings, migrate
from replicated import IMPORTS, launched, spawned

from xla_transforms.engine import migrate_program
from xla_transforms.outcome import Outcome
from xla_transforms.settings import Settings

HELPERS = "import torch\nimport torch.distributed as dist\n\n\ndef get_rank():\n    return dist.get_rank()\n"
SHARED = "from helpers import get_rank\n"
NESTED = """
def start():
    def worker(rank, n):
        dist.init_process_group("nccl")
        print(get_rank())
    mp.spawn(worker, args=(2,), nprocs=2)


if __name__ == "__main__":
    start()
"""
LAUNCHED = launched("print(get_rank())", before=SHARED)
SPAWNED = spawned("print(get_rank())", before=SHARED)
BLOCKED = IMPORTS + SHARED + NESTED
WHY = "worker (line 10), run by the processes, stands in a function: it cannot be pickled"


def program(settings: Settings | None = None, **texts: str) -> dict[str, Outcome]:
    """What becomes of files, by their names without the ending."""
    files = {f"{name}.py": text.encode() for name, text in texts.items()}
    outcomes = migrate_program(files, settings)
    return {path.removesuffix(".py"): outcome for path, outcome in outcomes.items()}


def obstacles(outcome: Outcome) -> list[str]:
    return [f.message for f in outcome.findings if f.code == "XLA163"]


def test_each_script_is_started_as_it_was() -> None:
    done = program(helpers=HELPERS, a=LAUNCHED, b=SPAWNED)
    assert done["a"].code.endswith("    torch_xla.launch(_mp_fn)\n")
    assert done["b"].code.endswith("    torch_xla.launch(worker)\n")
    assert "return xr.global_ordinal()" in done["helpers"].code


def test_each_script_has_the_entry_that_a_launcher_calls() -> None:
    done = program(Settings(target="sagemaker"), helpers=HELPERS, a=LAUNCHED, b=SPAWNED)
    assert "def _mp_fn(index):\n    main()\n" in done["a"].code
    assert "def _mp_fn(index):\n    worker(xm.get_ordinal())\n" in done["b"].code


def test_a_script_that_cannot_be_started_does_not_keep_the_others_back() -> None:
    done = program(helpers=HELPERS, a=LAUNCHED, b=BLOCKED)
    assert done["a"].code.endswith("    torch_xla.launch(_mp_fn)\n")
    assert "return xr.global_ordinal()" in done["helpers"].code
    assert done["b"].code == BLOCKED
    assert obstacles(done["b"]) == [f"{WHY}; helpers.py, which other scripts use, is migrated for them"]
    assert obstacles(done["a"]) == []


def test_a_script_that_cannot_be_started_goes_the_ways_of_one_process_too() -> None:
    ways = "if dist.is_initialized():\n            x = 1\n        else:\n            x = torch.ones(1).cuda()"
    code = BLOCKED.replace(SHARED, "").replace("print(get_rank())", ways)
    (done,) = program(a=code.replace("    start()\n", "    if several:\n        start()\n")).values()
    assert "            x = torch.ones(1).to(torch_xla.device())\n" in done.code


def test_scripts_that_all_cannot_be_started_are_left_with_their_helpers() -> None:
    done = program(helpers=HELPERS, a=BLOCKED, b=BLOCKED)
    assert [outcome.code for outcome in done.values()] == [HELPERS, BLOCKED, BLOCKED]
    assert obstacles(done["a"])[0].startswith(WHY)


def test_a_file_without_a_start_of_its_own_is_told_that_it_is_left() -> None:
    steps = "import torch\n\n\ndef step(x):\n    return x.cuda()\n"
    script = BLOCKED.replace(SHARED, "from steps import step\n").replace("print(get_rank())", "step(rank)")
    done = program(steps=steps, a=script)
    assert [outcome.code for outcome in done.values()] == [steps, script]
    assert obstacles(done["steps"]) == [f"{WHY}, in a.py: this is left with it"]
    (told,) = done["a"].findings
    assert told.advice.endswith("; until then the program is left as it is")


def test_a_script_that_others_import_is_named_where_they_are_left() -> None:
    done = program(a=LAUNCHED.replace("from helpers", "from b"), b=BLOCKED.replace(SHARED, HELPERS))
    (told,) = obstacles(done["a"])
    assert told.endswith("stands in a function: it cannot be pickled, in b.py: this is left with it")
    assert "dist.init_process_group" in done["a"].code
    assert "_mp_fn" not in done["a"].code


def test_helpers_of_a_script_of_one_process_are_no_matter() -> None:
    script = "import torch\nfrom helpers import get_rank\nx = torch.ones(1).cuda()\n"
    done = program(helpers=HELPERS, a=script + "x.sum().backward()\n")
    assert [f.code for outcome in done.values() for f in outcome.findings] == []


@pytest.mark.parametrize("asked", ["is_initialized", "is_available"])
def test_a_question_for_the_group_alone_is_no_matter(asked: str) -> None:
    check_noop(f"import torch.distributed as dist\n\n\ndef f():\n    return dist.{asked}()\n", "parts")


def test_helpers_alone_are_told_with_what_they_ask() -> None:
    (found,) = migrate(HELPERS + "\n\ndef wait():\n    dist.barrier()\n").findings
    assert (found.code, found.span.line, found.severity.label) == ("XLA166", 6, "info")
    told = "get_rank (line 6), barrier (line 10) left: what joins the process group is not here"
    assert found.message == told
    assert "as a whole" in found.advice


def test_helpers_that_use_cuda_are_told_as_a_warning() -> None:
    (found,) = migrate(HELPERS + "\n\ndef clear():\n    torch.cuda.empty_cache()\n", "parts").findings
    assert found.severity.label == "warning"


def test_helpers_for_one_process_are_not_told_where_the_user_wants_one() -> None:
    assert findings(HELPERS, settings=Settings(distributed=False)) == []


def test_a_set_up_alone_is_to_be_migrated_with_its_program() -> None:
    code = HELPERS + "\n\ndef join():\n    dist.init_process_group('nccl')\n"
    (found,) = [f for f in migrate(code).findings if f.code == "XLA163"]
    assert found.advice.startswith("migrate the program that this belongs to as a whole, or ")


def test_an_empty_module_of_a_program_that_is_left_has_nothing_to_tell() -> None:
    files = {"pack/__init__.py": b"", "pack/helpers.py": HELPERS.encode()}
    files["pack/train.py"] = BLOCKED.replace("from helpers", "import pack\nfrom pack.helpers").encode()
    done = migrate_program(files)
    assert not any(outcome.failed for outcome in done.values())
    assert done["pack/__init__.py"].findings == ()
    assert "stands in a function" in obstacles(done["pack/train.py"])[0]


ASKS = 'import os\n\nrank = int(os.environ["RANK"])\n'
ASKING = launched("print(cluster.rank)", before="import cluster\n")


def test_a_module_that_asks_in_a_function_is_imported_where_it_was() -> None:
    asks = "import os\n\n\ndef rank():\n    return int(os.environ['RANK'])\n"
    script = ASKING.replace("cluster.rank", "cluster.rank()")
    code = program(train=script, cluster=asks)["train"].code
    assert "import cluster\n" in code.partition("def main")[0]


def test_a_module_that_does_more_than_asking_is_told() -> None:
    done = program(train=ASKING, cluster=ASKS + "\n\ndef show():\n    print(rank)\n")
    assert "import cluster\n" in done["train"].code.partition("def main")[0]
    assert [f.code for f in done["cluster"].findings] == ["XLA145"]


def test_a_module_that_asks_as_it_is_imported_is_imported_by_each_process() -> None:
    done = program(train=ASKING, cluster=ASKS)
    head, _, entry = done["train"].code.partition("def _mp_fn(index):\n")
    assert "import cluster" not in head
    assert entry.startswith("    global cluster\n    import cluster\n\n    main()\n")
    assert "rank = xr.global_ordinal()\n" in done["cluster"].code
    assert not any(f.code == "XLA145" for outcome in done.values() for f in outcome.findings)


def test_what_uses_such_a_module_at_the_top_follows_its_import() -> None:
    script = ASKING.replace("import cluster\n", "import cluster\nlevel = cluster.level\n")
    code = program(train=script, cluster=ASKS + "level = 3\n")["train"].code
    head, _, entry = code.partition("def _mp_fn(index):\n")
    assert "cluster.level" not in head
    assert "    import cluster\n    level = cluster.level\n" in entry.replace("\n\n", "\n")


def test_what_imports_such_a_module_at_its_top_is_imported_by_each_process_too() -> None:
    between = "from cluster import rank\n\n\ndef show(x):\n    print(rank, x)\n"
    script = launched("show(torch.ones(1).cuda())", before="from helpers import show\n")
    done = program(train=script, helpers=between, cluster=ASKS)
    assert "    global show\n    from helpers import show\n" in done["train"].code
    assert not any(f.code == "XLA145" for outcome in done.values() for f in outcome.findings)


def test_a_module_that_is_imported_before_the_launch_as_well_is_told() -> None:
    other = "import cluster\nimport torch\n\n\ndef show():\n    print(torch.ones(1).cuda(), cluster.rank)\n"
    tried = "try:\n    import helpers\nexcept ImportError:\n    pass\n"
    script = ASKING.replace("import cluster\n", "import cluster\n" + tried)
    done = program(train=script, helpers=other, cluster=ASKS)
    assert [f.code for f in done["cluster"].findings] == ["XLA145"]
