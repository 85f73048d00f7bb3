"""``explain`` with a topic: causes, the rules that see them, and where they are seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import Cli

from xla_migrate.known_rules import known_rules
from xla_migrate.topics import TOPICS

SCRIPT = """\
import torch
net = torch.nn.Linear(2, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
net = net.cuda()
for x in torch.utils.data.DataLoader(data, batch_size=4):
    loss = net(x.cuda()).sum()
    loss.backward()
    opt.step()
    print(loss.item())
"""


def test_topics_are_listed(cli: Cli) -> None:
    ran = cli("explain")
    assert ran.code == 0
    assert [line.split()[0] for line in ran.text.splitlines()] == [
        "does-not-converge", "missing-xla-configuration", "no-speed-up",
    ]  # fmt: skip


def test_a_topic_names_only_rules_that_exist() -> None:
    known = {rule.code for rule in known_rules()}
    named = {code for topic in TOPICS for cause in topic.all for code in cause.rules}
    assert named - known == set()
    assert len(named) > 20


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_a_topic_tells_each_cause_with_its_rules(cli: Cli, topic: object) -> None:
    ran = cli("explain", topic.name.upper())  # type: ignore[attr-defined]
    words = " ".join(ran.text.split())
    assert ran.code == 0
    for cause in topic.all:  # type: ignore[attr-defined]
        assert " ".join(cause.what.split()) in words
        assert " ".join(cause.remedy.split()) in words
        assert all(code in words for code in cause.rules)
    assert "> " not in ran.text


def test_the_names_of_the_guide_that_do_not_exist_are_not_repeated(cli: Cli) -> None:
    text = "".join(cli("explain", topic.name).text for topic in TOPICS)
    assert "step_closure" not in text.replace("add_step_closure", "")
    assert '{"torchxla"' not in text
    assert 'GPU_NUM_DEVICES"] = 4' not in text


def test_causes_that_are_seen_come_with_their_lines(cli: Cli, here: Path) -> None:
    (here / "train.py").write_text(SCRIPT)
    lines = cli("explain", "does-not-converge", "train.py").text.splitlines()
    seen = [line.split()[1:3] for line in lines if line.startswith("    > ")]
    assert seen == [["train.py:5:", "XLA501"], ["train.py:3:", "XLA411"], ["train.py:8:", "XLA611"]]


def test_a_script_without_any_of_them(cli: Cli, here: Path) -> None:
    (here / "train.py").write_text("import torch\n")
    assert "None of these causes is seen in train.py." in cli("explain", "no-speed-up", "train.py").text


def test_launchers_in_a_folder_count(cli: Cli, here: Path) -> None:
    (here / "train.py").write_text("import torch\n")
    (here / "run.sh").write_text("torchrun train.py\n")
    assert "> run.sh:1: XLA941" in cli("explain", "does-not-converge", ".").text


def test_a_file_that_cannot_be_read_is_told(cli: Cli, here: Path) -> None:
    (here / "train.py").write_text("import torch\nprint 'cuda'\n")
    ran = cli("explain", "no-speed-up", "train.py")
    assert ran.code == 1
    assert "train.py" in ran.err


def test_rules_are_explained_as_before(cli: Cli) -> None:
    assert cli("explain", "XLA601").text.startswith("XLA601 step-barrier\n")
    assert cli("explain", "XLA601", ".").code == 2
    assert "did you mean no-speed-up?" in cli("explain", "no-speedup").err


def test_samplers_and_schedules_of_replicas_are_seen(here: Path, cli: Cli) -> None:
    script = """\
import os
import torch
torch.distributed.init_process_group("nccl")
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
opt = torch.optim.SGD(net.parameters(), lr=0.1 * int(os.environ["WORLD_SIZE"]))
sampler = torch.utils.data.distributed.DistributedSampler(data)
for x in torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler):
    net(x.cuda()).sum().backward()
    opt.step()
"""
    (here / "train.py").write_text(script)
    text = cli("explain", "does-not-converge", "train.py").text
    assert {"> train.py:6: XLA511", "> train.py:5: XLA178", "> train.py:3: XLA162"} <= {
        line.strip()[: len("> train.py:6: XLA511")] for line in text.splitlines()
    }
