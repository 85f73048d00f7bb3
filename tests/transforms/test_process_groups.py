"""Training in several processes: told, and left."""

from __future__ import annotations

from helpers import check_noop, findings

HEAD = "import torch\nfrom torch import distributed as dist\nfrom torch.nn.parallel import "
HEAD += "DistributedDataParallel\n"
GPU = "model = net.cuda()\n"


def test_without_a_gpu_nothing_is_said() -> None:
    assert findings(HEAD + "dist.init_process_group('gloo')\n") == []


def test_names_of_another_package_are_not_meant() -> None:
    assert findings("import torch\nfrom ours import spawn\nspawn(1)\n" + GPU, "process_groups") == []


def test_a_process_group_and_its_wrapper_are_told_and_left() -> None:
    code = HEAD + GPU + "dist.init_process_group('nccl')\nmodel = DistributedDataParallel(model)\n"
    check_noop(code, "process_groups")
    assert findings(code, "process_groups") == [("XLA131", 5), ("XLA131", 6)]


def test_started_processes_are_told() -> None:
    code = "import torch\nimport torch.multiprocessing as mp\n" + GPU + "mp.spawn(main, nprocs=2)\n"
    assert findings(code) == [("XLA131", 4)]


def test_a_model_that_processes_share_is_told() -> None:
    code = "import torch\nmodel = torch.nn.Linear(1, 1).cuda()\nmodel.share_memory()\nx.share_memory()\n"
    assert findings(code) == [("XLA131", 3)]
