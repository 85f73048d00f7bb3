"""Scripts for one process that are to train in replicas."""

from __future__ import annotations

from helpers import check_noop, migrate
from replicated import launched

from xla_transforms.settings import Settings

REPLICAS = Settings(distributed=True)
SCRIPT = """\
import os
import torch
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

print("starting")


def main():
    data = TensorDataset(torch.randn(64, 4))
    loader = DataLoader(data, batch_size={size}, shuffle=True)
    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {lines}
    for x in loader:
        optimizer.zero_grad()
        model(x[0].cuda()).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""


def script(*lines: str, size: str = "8") -> str:
    return SCRIPT.format(lines="\n    ".join(lines or ("pass",)), size=size)


def written(*lines: str) -> list[str]:
    """What becomes of lines of the training function."""
    text = migrate(script(*lines), "one_process", settings=REPLICAS).data.decode()
    body = text.partition("lr=0.1)\n")[2].partition("    for x in")[0]
    return [line[4:] for line in body.splitlines()]


def told(*lines: str, size: str = "8") -> list[str]:
    """Codes of what is said of lines of the training function; of batch sizes only where asked for."""
    found = migrate(script(*lines, size=size), "one_process", settings=REPLICAS).findings
    return [f.code for f in found if f.code != "XLA174"]


def test_one_process_prints_for_itself() -> None:
    check_noop(script("print(1)"), "one_process")


def test_each_rank_of_a_native_script_prints_for_itself() -> None:
    check_noop(launched("print(1)"), "one_process")


def test_what_is_printed_before_the_replicas_start_stays() -> None:
    text = migrate(script("print(1)"), "one_process", settings=REPLICAS).data.decode()
    assert 'print("starting")\n' in text
    assert 'xm.master_print("starting")' not in text


def test_a_print_that_the_masters_does_not_take_is_told() -> None:
    assert written('print(1, end="")') == ['print(1, end="")']
    assert told('print(1, end="")') == ["XLA173"]


def test_the_master_prints() -> None:
    assert written("print(1, flush=True)") == ["xm.master_print(1, flush=True)"]


def test_the_master_shows_its_progress() -> None:
    bar = "bar = tqdm(loader, disable=not xm.is_master_ordinal(local=False))"
    assert written("bar = tqdm(loader)") == [bar]


def test_a_bar_that_asks_for_itself_stays() -> None:
    assert written("bar = tqdm(loader, disable=quiet)") == ["bar = tqdm(loader, disable=quiet)"]


def test_what_is_read_is_read_by_all() -> None:
    assert told('file = open("log")', 'os.makedirs("out", exist_ok=True)') == []


def test_what_is_written_is_written_by_all() -> None:
    assert told('file = open("log", "w")', 'os.makedirs("out")') == ["XLA173", "XLA173"]


def test_the_global_batch_grows() -> None:
    found = migrate(script(), "one_process", settings=REPLICAS).findings
    (message,) = [f.message for f in found if f.code == "XLA174"]
    assert message == "the batch of 8 is each replica's, the global batch N times that: 32 on 4 replicas"


def test_the_global_batch_grows_by_an_entry_of_a_dictionary() -> None:
    code = script('options = {"batch_size": 8}').replace("batch_size=8, shuffle=True", "**options")
    found = migrate(code, "one_process", settings=REPLICAS).findings
    assert [f.message.partition(" is each")[0] for f in found if f.code == "XLA174"] == [
        'the batch of options["batch_size"]'
    ]


def test_a_download_by_all_is_told() -> None:
    assert told("vision.MNIST('data', download=True)") == ["XLA173"]
    assert told("vision.MNIST('data', download=False)", "vision.MNIST('data')") == []
    before = script().replace('print("starting")', "vision.MNIST('data', download=True)")
    assert "XLA173" not in [f.code for f in migrate(before, "one_process", settings=REPLICAS).findings]


def test_the_default_of_an_option_and_the_learning_rate_are_told() -> None:
    options = 'import argparse\np = argparse.ArgumentParser()\np.add_argument("--batch", default=8)\n'
    code = options + "args = p.parse_args()\n" + script(size="args.batch")
    (found,) = [f for f in migrate(code, "one_process", settings=REPLICAS).findings if f.code == "XLA174"]
    assert found.message.startswith("the batch of args.batch (8 by default) is each replica's")
    assert found.message.endswith(": 32 on 4 replicas")
    assert found.advice.endswith("tune the learning rate anew (0.1)")


def test_equal_masks_are_told() -> None:
    assert told("drop = torch.nn.Dropout(0.1)", "torch.manual_seed(1)") == ["XLA176"]
    assert told("torch.manual_seed(1)") == []


def test_files_that_each_replica_would_write_are_told() -> None:
    lines = ("Path('a.json').write_text('{}')", "shutil.copyfile('a', 'b')", "figure.savefig('c.png')")
    code = "import shutil\nfrom pathlib import Path\n" + script(*lines)
    told = [f for f in migrate(code, "one_process", settings=REPLICAS).findings if f.code == "XLA173"]
    assert [f.message for f in told] == [
        "Path('a.json').write_text is called by every replica",
        "shutil.copyfile is called by every replica",
        "figure.savefig is called by every replica",
    ]
    assert migrate(code, "one_process").findings == ()


SAVE = "torch.save(model.state_dict(), 'a.pt')"
LOAD = "model.load_state_dict(torch.load('a.pt'))"
NORM = "model = torch.nn.Sequential(model, torch.nn.BatchNorm1d(1)).cuda()"


def test_where_checkpoints_are_loaded_all_replicas_wait_until_one_is_written() -> None:
    text = migrate(script(SAVE, LOAD), "checkpoints", settings=REPLICAS).code
    assert "    xm.save(model.state_dict(), 'a.pt')\n    xm.rendezvous(\"main_written\")\n" in text


def test_what_is_never_loaded_is_not_waited_for() -> None:
    assert "rendezvous" not in migrate(script(SAVE), "checkpoints", settings=REPLICAS).code
    assert "rendezvous" not in migrate(script(SAVE, LOAD), "checkpoints").code
    assert "rendezvous" not in migrate(launched(SAVE, LOAD), "checkpoints").code


def test_replicas_evaluate_what_they_train_by_the_same_statistics() -> None:
    text = migrate(script(NORM, "model.train()", "model.eval()"), "replica_buffers", settings=REPLICAS).code
    assert "    xm.broadcast_master_param(model)\n    model.eval()\n" in text


def test_a_model_that_only_evaluates_has_the_same_statistics_anyway() -> None:
    check_noop(script(NORM, "model.eval()"), "replica_buffers", settings=REPLICAS)
    check_noop(script(NORM, "model.train()", "model.eval()"), "replica_buffers")
