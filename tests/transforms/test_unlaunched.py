"""What processes run, called without a launch."""

from __future__ import annotations

from helpers import findings, migrate
from replicated import IMPORTS

from xla_transforms import engine
from xla_transforms.settings import Settings

SCRIPT = (
    "import argparse\n"
    + IMPORTS
    + """
def worker(gpu, args):
    if args.distributed:
        dist.init_process_group("nccl", world_size=args.world_size, rank=args.rank)
    torch.zeros(1).cuda()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", "--many-processes", dest="many", action="store_true")
    args = parser.parse_args()
    if args.many:
        mp.spawn(worker, args=(args,), nprocs=torch.cuda.device_count())
    else:
        worker(0, args)


if __name__ == "__main__":
    main()
"""
)


def test_a_launch_without_another_way_is_no_matter() -> None:
    code = SCRIPT.replace("    else:\n        worker(0, args)\n", "")
    assert findings(code, "unlaunched") == []


def test_a_call_in_the_processes_is_no_matter() -> None:
    code = SCRIPT.replace("        worker(0, args)\n", "        pass\n")
    again = "    if gpu > 9:\n        worker(0, args)\n"
    code = code.replace("    torch.zeros(1).cuda()\n", "    torch.zeros(1).cuda()\n" + again)
    assert findings(code, "unlaunched") == []


def test_a_way_that_was_never_taken_on_several_devices_is_no_matter() -> None:
    code = SCRIPT.replace("if args.many", "if torch.cuda.device_count() > 1")
    assert findings(code, "unlaunched") == []


def test_the_option_of_the_launch_is_named() -> None:
    (found,) = migrate(SCRIPT, "unlaunched").findings
    assert (found.code, found.span.line, found.severity.label) == ("XLA165", 22, "warning")
    assert found.message.startswith("without --many-processes worker trains on one device")
    assert found.advice.endswith("by python, with --many-processes")


def test_a_choice_without_an_option_is_told_plainly() -> None:
    (found,) = migrate(SCRIPT.replace("if args.many", "if several()"), "unlaunched").findings
    assert found.message.startswith("here worker trains on one device")


def test_under_a_launcher_every_process_trains_alone() -> None:
    found = migrate(SCRIPT, "unlaunched", settings=Settings(target="sagemaker")).findings
    assert [f.message for f in found] == [
        "without --many-processes worker trains alone in each process: all of them on all the data"
    ]


WHY = "is called without the launch that train.py has: each process trains alone"
LAUNCHED = IMPORTS + """
def main():
    dist.init_process_group("nccl")
    torch.zeros(1).cuda()


def parser():
    return None


if __name__ == "__main__":
    parser()
    main()
"""


def around(*lines: str) -> list[tuple[int, str]]:
    """Line and message of what is told of a file beside the script of a launcher."""
    head = "import train\n\n\nclass Job:\n    def __call__(self):\n"
    other = head + "".join(f"        {line}\n" for line in lines)
    files = {"train.py": LAUNCHED.encode(), "job.py": other.encode()}
    found = engine.migrate_program(files)["job.py"].findings
    return [(f.span.line, f.message) for f in found if f.code == "XLA165"]


def test_other_functions_of_a_launched_script_may_be_called() -> None:
    assert around("train.parser()") == []


def test_a_file_that_has_processes_started_otherwise_is_told() -> None:
    ((line, message),) = around("train.main()")
    assert (line, message) == (6, f"train.main {WHY}")
