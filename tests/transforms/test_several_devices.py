"""Programs for several devices: reported, and left in every line."""

from __future__ import annotations

from helpers import check_noop, findings, migrate

from xla_transforms.engine import migrate_program

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
    assert findings(code + LOOP) == [("XLA197", 2)]


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
        "main.py": b"import torch\nimport save\nfrom torch.distributed.fsdp import fully_shard\nx.cuda()\n",
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
