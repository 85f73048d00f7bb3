"""Programs for several devices: reported, and left in every line."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings, migrate

from xla_transforms.engine import migrate_program
from xla_transforms.settings import Settings

LOOP = """
for x in loader:
    loss = model(x.cuda(1)).sum()
    loss.backward()
    optimizer.step()
    print(loss.item())
torch.save(model.state_dict(), "a.pt")
"""


def test_a_model_on_two_gpus_is_left_with_its_loop_and_its_saves() -> None:
    code = "import torch\nmodel = split(a.cuda(0), b.cuda(1))\n" + LOOP
    check_noop(code)
    assert {rule for rule, _ in findings(code)} == {"XLA191"}


def test_a_sharded_model_is_left() -> None:
    code = "import torch\nfrom torch.distributed.fsdp import fully_shard\nmodel = fully_shard(net.cuda())\n"
    check_noop(code + LOOP)
    assert findings(code + LOOP) == [("XLA197", 3)]
    (told,) = [f for f in migrate(code + LOOP).findings if f.code == "XLA197"]
    assert "XlaFullyShardedDataParallel" in told.advice


def test_an_optimizer_that_parts_its_state_is_told_where_it_is_made() -> None:
    code = "import torch\nfrom torch.distributed.optim import ZeroRedundancyOptimizer\nmodel = net.cuda()\n"
    code += "optimizer = {}(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.1)\n"
    assert findings(code.format("ZeroRedundancyOptimizer"), "several_devices") == [("XLA197", 4)]
    assert findings(code.format("ours.ZeroRedundancyOptimizer"), "several_devices") == []


@pytest.mark.parametrize(
    ("target", "word"), [("2.9", "zero_redundancy_optimizer.py"), ("sagemaker", "build the inner")]
)
def test_where_an_optimizer_gathers_its_state_is_told_too(target: str, word: str) -> None:
    code = "import torch\nfrom torch.distributed.optim import ZeroRedundancyOptimizer as Zero\n"
    code += "model = net.cuda()\n"
    code += "optimizer = Zero(model.parameters(), torch.optim.Adam)\noptimizer.consolidate_state_dict(to=0)\n"
    found = migrate(code, "several_devices", settings=Settings(target=target)).findings
    assert [(f.code, f.span.line) for f in found] == [("XLA197", 4), ("XLA197", 5)]
    assert word in found[0].advice
    assert "leave it out" in found[1].advice
    other = code.replace("torch.distributed.optim", "ours")
    assert findings(other, "several_devices") == []


def test_workers_that_call_one_another_are_left() -> None:
    code = "import torch\nimport torch.distributed.rpc as rpc\nmodel = net.cuda()\n"
    check_noop(code)
    assert findings(code) == [("XLA197", 2)]


def test_sharding_without_a_gpu_is_not_spoken_of() -> None:
    assert findings("import torch\nfrom torch.distributed.fsdp import fully_shard\ndevice = 1\n") == []


def test_sharding_that_is_only_a_choice_leaves_the_rest_to_be_migrated() -> None:
    code = "import torch\n\nif a:\n    from torch.distributed.fsdp import fully_shard\n\nx = net.cuda()\n"
    assert "net.to(torch_xla.device())" in migrate(code).code


def test_the_other_modules_of_a_sharded_program_are_left() -> None:
    files = {
        "main.py": b"import save\nfrom torch.distributed.fsdp import fully_shard as f\nf(x.cuda())\n",
        "save.py": b"import torch\n\n\ndef save(device, x):\n    torch.save(x, 'x.pt')\n",
    }
    outcomes = migrate_program(files)
    assert all(outcome.data == files[path] for path, outcome in outcomes.items())
    assert [f.code for outcome in outcomes.values() for f in outcome.findings] == ["XLA197"]


def test_another_module_that_speaks_of_cuda_says_why_it_is_left() -> None:
    files = {
        "main.py": b"import torch\nimport tools\nimport torch.distributed.rpc as rpc  # on the gpu\n",
        "tools.py": b"import torch\n\n\ndef count():\n    return torch.cuda.device_count()\n",
    }
    outcomes = migrate_program(files)
    assert outcomes["tools.py"].data == files["tools.py"]
    assert [f.code for f in outcomes["tools.py"].findings] == ["XLA197"]


def test_an_import_of_a_file_without_gpu_code_leads_to_no_other_file() -> None:
    files = {
        "a/train.py": b"import torch\nfrom model import Net\n\nnet = Net().cuda()\n",
        "a/model.py": b"import torch\n",
        "b/model.py": b"import torch\nfrom torch.distributed.fsdp import fully_shard\nx = torch.cuda\n",
    }
    outcomes = migrate_program(files)
    assert b".to(torch_xla.device())" in outcomes["a/train.py"].data
    assert outcomes["b/model.py"].data == files["b/model.py"]


ONE_EACH = [
    "def work(rank):\n    model.to(rank)\n    x = x.cuda(rank)\n\n\n"
    "mp.spawn(work, nprocs=torch.cuda.device_count())\n",
    "for rank in range(4):\n    mp.Process(target=work, args=(rank,)).start()\n\n\n"
    "def work(rank):\n    x.cuda(rank)\n",
    "rank = int(os.environ['LOCAL_RANK'])\nx.cuda(rank)\ny = torch.zeros(2, device=f'cuda:{rank}')\n",
    "local = rank % torch.cuda.device_count()\nx.cuda(local)\ny.cuda(rank)\n",
    "device = torch.device(f'cuda:{args.gpu_ids[0]}')\nx.to(device)\ny.cuda(args.gpu_ids[0])\n",
    "x.cuda()\nfor i in range(torch.cuda.device_count()):\n"
    "    print(torch.cuda.get_device_name(f'cuda:{i}'))\n",
    "for kind in ('cpu', 'cuda'):\n    x = x.to(kind)\n",
    "for x in loader:\n    x = x.cuda()\n",
    "for i, x in enumerate(loader):\n    x = x.to(device)\n    y = table.to(x[i])\n    z = z.cuda()\n",
    "for (shape, device), alike in grouped(tensors):\n    x = torch.zeros(shape, device=device).cuda()\n",
]


@pytest.mark.parametrize("code", ONE_EACH)
def test_a_process_with_one_device_of_its_own_is_migrated(code: str) -> None:
    assert "XLA191" not in {rule for rule, _ in findings("import torch\nimport os\n" + code)}


SEVERAL = [
    "for i in range(torch.cuda.device_count()):\n    parts[i].to(i)\n",
    "for i in range(4):\n    copies.append(net.cuda(i))\n",
    "for i in range(4):\n    copies.append(net.to(f'cuda:{i}'))\n",
    "devices = [torch.device(f'cuda:{i}') for i in range(torch.cuda.device_count())]\nx = x.to(devices[0])\n",
    "devices = [torch.device('cuda', i) for i in range(4)]\nx = x.to(devices[0])\n",
    "devices = ['cuda:%d' % i for i in ids]\nx = x.to(devices[0])\n",
    "for i, part in enumerate(parts):\n    part.cuda(i % count)\n",
    "for i in range(4):\n    with torch.cuda.device(i):\n        x = x.cuda()\n",
    "def place(part, gpu):\n    return part.cuda(gpu)\n\n\n"
    "for i in range(4):\n    parts[i] = place(parts[i], i)\n",
    "gpu = 0\nfor part in parts:\n    part.cuda(gpu)\n    gpu += 1\n",
    "def work(rank):\n    a.to(f'cuda:{rank * 2}')\n    b.to(f'cuda:{rank * 2 + 1}')\n",
    "def run(rank):\n    low = rank * 2\n    high = rank * 2 + 1\n    a.cuda(low)\n    b.cuda(high)\n",
    "ids = parse(args.gpus)\na.cuda(ids[0])\nb.cuda(ids[1])\n",
    "def split(devices):\n    a.to(devices[0])\n    b.to(devices[1])\n    c.cuda()\n",
    "def replicate(net, devices):\n    net.cuda()\n    return [net.to(device) for device in devices]\n",
    "for name, (device, part) in placed.items():\n    part.to(device)\n    part.cuda()\n",
    "for i, (device, part) in enumerate(zip(devices, parts)):\n    part.to(device)\n    part.cuda()\n",
]


@pytest.mark.parametrize("code", SEVERAL)
def test_devices_that_are_counted_through_are_left_with_the_loop_that_trains(code: str) -> None:
    code = "import torch\n" + code + LOOP.replace("x.cuda(1)", "x.cuda()")
    check_noop(code)
    assert {rule for rule, _ in findings(code)} == {"XLA191"}


def test_a_module_that_places_its_parts_takes_the_program_that_imports_it_along() -> None:
    files = {
        "parts.py": b"import torch\n\n\ndef place(net):\n    return [p.cuda(i) for i, p in enumerate(net)]\n",
        "train.py": b"import torch\nfrom parts import place\n\nx = x.cuda()\n",
        "other.py": b"import torch\nimport tools\n\nx = x.cuda()\n",
        "tools.py": b"import torch\n\ny = y.cuda()\n",
    }
    outcomes = migrate_program(files)
    assert outcomes["train.py"].data == files["train.py"]
    assert [f.code for f in outcomes["train.py"].findings] == ["XLA191"]
    assert outcomes["other.py"].data != files["other.py"]


def test_a_program_beside_it_that_shares_its_tools_is_migrated() -> None:
    files = {
        "split.py": b"import torch\nimport tools\n\na.cuda(0)\nb.cuda(1)\n",
        "train.py": b"import torch\nimport tools\n\nx = x.cuda()\n",
        "tools.py": b"import torch\n\n\ndef load(path):\n    return torch.load(path)\n",
    }
    outcomes = migrate_program(files)
    assert b".to(torch_xla.device())" in outcomes["train.py"].data
    assert outcomes["split.py"].data == files["split.py"]


def test_devices_that_are_only_compared_or_listed_name_none() -> None:
    shown = 'names = [f"cuda:{i}" for i in found]\nprint(names)\n'
    compared = 'assert str(x.device) == "cuda:0" or str(y.device) != "cuda:1"\n'
    for line in (shown, compared):
        assert "XLA191" not in {rule for rule, _ in findings("import torch\nmodel.cuda()\n" + line)}


def test_a_list_of_devices_that_is_used_names_several() -> None:
    code = 'import torch\nnames = [f"cuda:{i}" for i in found]\nprint(names)\nsplit(model.cuda(), names)\n'
    assert {rule for rule, _ in findings(code)} == {"XLA191"}


def test_what_a_test_does_with_a_module_does_not_keep_the_module_from_moving() -> None:
    files = {
        "net.py": b"import torch\n\nx = x.cuda()\n",
        "test_net.py": b"import torch, pytest, net\n\na.cuda(0)\nb.cuda(1)\n",
    }
    outcomes = migrate_program(files)
    assert b".to(torch_xla.device())" in outcomes["net.py"].data
    assert outcomes["test_net.py"].data == files["test_net.py"]
