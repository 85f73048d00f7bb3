"""Scripts of several processes for targets whose processes a launcher outside of the script starts."""

from __future__ import annotations

import pytest
from helpers import check_transformed, migrate, open_findings
from replicated import IMPORTS, launched, spawned

from xla_transforms.settings import Settings

SAGEMAKER, OLDER = Settings(target="sagemaker"), Settings(target="2.1")
GUARD = 'if __name__ == "__main__":\n'
XM = "Sampler\nimport torch_xla.core.xla_model as xm\n"
MULTIPLE = "import torch.multiprocessing as mp\n"


def told(code: str, *passes: str) -> list[tuple[str, int, str]]:
    """What is left open for SageMaker: code, line and message."""
    found = open_findings(migrate(code, *passes, settings=SAGEMAKER))
    return [(f.code, f.span.line, f.message) for f in found if f.code.startswith("XLA16")]


def obstacle(code: str) -> str:
    """Why the start of the processes is left; nothing of the program may be written then."""
    outcome = migrate(code, settings=SAGEMAKER)
    assert "_mp_fn(index)" not in outcome.code
    assert "mp.spawn(" in outcome.code
    (found,) = [f for f in outcome.findings if f.code == "XLA163"]
    assert found.severity.label == "error"
    return found.message


def test_what_spawn_started_each_process_of_the_launcher_calls() -> None:
    code = spawned("print(rank)")
    expected = code.replace(MULTIPLE, "").replace("(rank, world_size):", "(rank):")
    expected = expected.replace(", rank=rank, world_size=world_size", "")
    code = code.replace(", rank=rank, world_size=world_size", "")
    main = GUARD + "    n = torch.cuda.device_count()\n    mp.spawn(worker, args=(n,), nprocs=n)\n"
    called = f"def _mp_fn(index):\n    worker(xm.get_ordinal())\n\n\n{GUARD}    _mp_fn(0)\n"
    expected = expected.replace(main, called).replace("Sampler\n", XM, 1)
    check_transformed(code, expected, "launch", "entry_points", settings=SAGEMAKER)


def test_what_the_guard_makes_for_spawn_is_made_in_each_process() -> None:
    code = spawned("print(rank)").replace("args=(n,)", "args=(n, args)").replace("size):", "size, args):")
    code = code.replace("    n = torch", "    args = parser.parse_args()\n    n = torch")
    parser = "import argparse\nimport torch\nparser = argparse.ArgumentParser()\n"
    code = code.replace("import torch\n", parser, 1)
    text = migrate(code, settings=SAGEMAKER).code
    body = "def _mp_fn(index):\n    args = parser.parse_args()\n    worker(xm.get_ordinal(), args)\n"
    assert body in text
    assert text.endswith(f"{GUARD}    _mp_fn(0)\n")


def test_arguments_that_are_not_seen_are_handed_on() -> None:
    code = spawned("print(rank)").replace("args=(n,)", "args=things")
    code = code.replace("    n =", "    things = (3,)\n    n =")
    assert "    worker(xm.get_ordinal(), *things)\n" in migrate(code, settings=SAGEMAKER).code


def test_on_several_hosts_the_function_is_given_the_number_on_its_host() -> None:
    code = spawned("print(rank)").replace('"nccl", rank=rank', '"nccl", rank=NODE * 4 + rank')
    code = code.replace("\n\ndef worker", "NODE = 1\n\n\ndef worker")
    assert "    worker(xm.get_local_ordinal())\n" in migrate(code, settings=SAGEMAKER).code


@pytest.mark.parametrize(
    ("line", "text"),
    [("os.remove('log')", "os.remove()"), ("os.makedirs('out')", "os.makedirs()"), ("input()", "input()")],
)
def test_what_one_process_alone_could_do_is_an_obstacle(line: str, text: str) -> None:
    code = spawned("print(rank)").replace("    n = torch", f"    {line}\n    n = torch")
    number = code.splitlines().index(f"    {line}") + 1
    reason = f"{text} (line {number}) ran once, in the process that started the others"
    assert obstacle(code) == reason
    assert migrate(code, settings=SAGEMAKER).code == code


def test_what_comes_behind_the_start_may_be_an_obstacle() -> None:
    assert "torch.load()" in obstacle(spawned("print(rank)") + "    torch.load('a.pt')\n")


ALIKE = [
    "os.makedirs('out', exist_ok=True)",
    "torch.accelerator.set_device_index(0)",
    "ctx = mp.get_context('spawn')",
    "workers = mp.cpu_count()",
]


@pytest.mark.parametrize("line", ALIKE)
def test_what_comes_out_alike_in_each_process_is_none(line: str) -> None:
    code = spawned("print(rank)").replace("    n = torch", f"    {line}\n    n = torch")
    assert "\n    worker(xm.get_ordinal())\n" in migrate(code, settings=SAGEMAKER).code
    assert told(code) == []


def test_a_print_of_the_starting_process_is_told() -> None:
    code = spawned("print(rank)").replace("    n = torch", "    print('begin')\n    n = torch")
    number = code.splitlines().index("    print('begin')") + 1
    assert [(c, line) for c, line, _ in told(code)] == [("XLA164", number)]


def test_the_launchers_name_must_be_free() -> None:
    assert "is a name of the script already" in obstacle(spawned("print(rank)", before="_mp_fn = 1\n"))


def test_a_start_that_no_script_reaches_is_left() -> None:
    code = spawned("print(rank)").replace(GUARD, "def go():\n")
    assert obstacle(code) == "nothing is known to launch the processes: no script starts them"


def test_a_top_level_without_guard_moves() -> None:
    code = IMPORTS + "\n\ndef worker(rank):\n    dist.init_process_group('nccl')\n    print(rank)\n\n\n"
    code += 'device = torch.device("cuda")\nmp.spawn(worker, nprocs=2)\n'
    text = migrate(code, "launch", "entry_points", settings=SAGEMAKER).code
    assert '    device = torch.device("cuda")\n    worker(xm.get_ordinal())\n' in text


def test_a_launcher_is_told_by_its_name() -> None:
    said = {f.code: f.message for f in migrate(launched("pass"), settings=SAGEMAKER).findings}
    calls = "SageMaker's launcher calls _mp_fn in a process for each device; python alone trains on one"
    assert said["XLA162"] == calls
    said = {f.code: f.message for f in migrate(launched("pass"), settings=OLDER).findings}
    assert "xmp.spawn starts a process" in said["XLA162"]


def test_a_process_group_that_is_left_is_advised_on_in_the_words_of_the_release() -> None:
    for target, words in (("2.1", 'init_method="pjrt://"'), ("sagemaker", "rank=xm.get_ordinal()")):
        settings = Settings(target=target, distributed=False)
        found = open_findings(migrate(launched("pass"), "process_groups", settings=settings))
        assert words in found[0].advice


SAVED = 'model = DDP(torch.nn.Linear(2, 2).cuda())\n    if dist.get_rank() == 0:\n        {}'


def test_a_save_that_waits_is_not_left_to_one_replica() -> None:
    save = "torch.save(model.state_dict(), 'a.pt')\n    else:\n        print(1)"
    outcome = migrate(launched(SAVED.format(save)), settings=SAGEMAKER)
    assert "        torch.save(model.state_dict(), 'a.pt')\n    else" in outcome.code
    assert "XLA814" in {f.code for f in outcome.findings}
    older = migrate(launched(SAVED.format(save)), settings=OLDER)
    assert "        xm.save(model.state_dict(), 'a.pt')\n    else" in older.code


def test_nor_is_one_in_a_function_that_a_guard_keeps() -> None:
    kept = launched(SAVED.format("keep(model)\n    else:\n        print(1)"))
    save = "\n\ndef keep(model):\n    torch.save(model.state_dict(), 'a.pt')\n"
    outcome = migrate(kept.replace("\n\ndef main", save + "\n\ndef main"), settings=SAGEMAKER)
    assert "    torch.save(model.state_dict(), 'a.pt')\n" in outcome.code
    assert "XLA814" in {f.code for f in outcome.findings}


@pytest.mark.parametrize(
    ("target", "told", "written"), [("sagemaker", True, "torch.save("), ("2.9", False, "xm.save(")]
)
def test_a_save_of_the_main_process_that_accelerate_names(target: str, told: bool, written: str) -> None:
    code = (
        "import torch\nfrom accelerate import Accelerator\naccelerator = Accelerator()\n"
        "model = accelerator.prepare(torch.nn.Linear(2, 2))\ntorch.cuda.empty_cache()\n"
        "if accelerator.is_main_process:\n    torch.save(accelerator.get_state_dict(model), 'a.pt')\n"
    )
    outcome = migrate(code, settings=Settings(target=target))
    assert f"    {written}" in outcome.code
    assert ("XLA814" in {f.code for f in outcome.findings}) is told


def test_a_save_behind_an_attribute_of_that_name_where_one_process_trains() -> None:
    code = "import torch\nmodel = torch.nn.Linear(2, 2).cuda()\nif settings.is_main_process:\n    {}\n"
    outcome = migrate(code.format("torch.save(model.state_dict(), 'a.pt')"), settings=SAGEMAKER)
    assert "    xm.save(model.state_dict(), 'a.pt')\n" in outcome.code


def test_a_save_that_all_reach_goes_through_xm() -> None:
    outcome = migrate(launched(SAVED.format("torch.save(model.state_dict(), 'a.pt')")), settings=SAGEMAKER)
    assert "    xm.save(model.state_dict(), 'a.pt')\n" in outcome.code
    assert "XLA814" not in {f.code for f in outcome.findings}
