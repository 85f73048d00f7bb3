"""Process groups: gone, on XLA's backend, or told and left."""

from __future__ import annotations

from helpers import check_noop, findings, migrate, run_only
from replicated import launched

from xla_transforms.settings import Settings

HEAD = "import torch\nfrom torch import distributed as dist\nfrom torch.nn.parallel import "
HEAD += "DistributedDataParallel\n"
GPU = "model = net.cuda()\n"
ALONE = Settings(distributed=False)


def test_without_a_gpu_nothing_is_said() -> None:
    assert findings(HEAD + "dist.init_process_group('gloo')\n") == []


def test_names_of_another_package_are_not_meant() -> None:
    assert findings("import torch\nfrom ours import spawn\nspawn(1)\n" + GPU, "process_groups") == []


def test_where_one_process_is_wanted_a_group_and_its_wrapper_are_told_and_left() -> None:
    code = HEAD + GPU + "dist.init_process_group('nccl')\nmodel = DistributedDataParallel(model)\n"
    code += "exec(text)\n"
    check_noop(code, "process_groups", settings=ALONE)
    assert findings(code, "process_groups", settings=ALONE) == [("XLA131", 5), ("XLA131", 6)]


def test_a_start_that_is_not_understood_leaves_the_program() -> None:
    code = HEAD + GPU + "dist.init_process_group('nccl')\nmodel = DistributedDataParallel(model)\n"
    code += "exec(text)\n"
    check_noop(code)
    assert [found for found, _ in findings(code)] == ["XLA163"]


def test_where_an_option_decides_about_the_group_the_other_way_is_migrated() -> None:
    code = HEAD + GPU + "if several:\n    dist.init_process_group('nccl')\n"
    code += "    model = DistributedDataParallel(model)\nexec(text)\n"
    assert "model = net.to(torch_xla.device())" in migrate(code).code
    assert [found for found, _ in findings(code)] == ["XLA131", "XLA163", "XLA131"]


def test_started_processes_are_told() -> None:
    code = "import torch\nimport torch.multiprocessing as mp\n" + GPU + "mp.spawn(main, nprocs=2)\n"
    assert findings(code) == [("XLA131", 4)]


def test_a_model_that_processes_share_is_told() -> None:
    code = "import torch\nmodel = torch.nn.Linear(1, 1).cuda()\nmodel.share_memory()\nx.share_memory()\n"
    assert findings(code) == [("XLA131", 3)]


def test_other_variables_of_the_environment_stay() -> None:
    assert 'os.environ["HOME"] = "x"' in run_only(launched('os.environ["HOME"] = "x"'), "process_groups")


def test_what_joins_and_leaves_goes_with_the_addresses() -> None:
    lines = ('os.environ["MASTER_ADDR"] = "localhost"', "train()", "dist.destroy_process_group()")
    text = run_only(launched(*lines), "process_groups")
    assert "def main():\n    train()\n    device" in text
    assert "torch.distributed" not in text


def test_a_set_up_function_goes_with_its_calls() -> None:
    before = "\n\ndef setup():\n    dist.init_process_group('nccl')\n"
    text = run_only(launched("setup()", before=before), "process_groups")
    assert "setup" not in text


def test_a_group_that_is_needed_is_joined_on_xlas_backend() -> None:
    text = run_only(launched("dist.scatter(x, xs)", "dist.destroy_process_group()"), "process_groups")
    assert 'dist.init_process_group("xla", init_method="xla://")' in text
    assert "destroy" in text


HOSTS = """\
    hosts = os.environ["SLURM_NODELIST"]
    first = subprocess.getoutput(f"scontrol show hostname {hosts}").split()[0]
    port = count_up()
    os.environ["MASTER_ADDR"] = first
    os.environ["MASTER_PORT"] = str(port)
"""


def asking(more: str = "") -> str:
    lines = HOSTS.replace("\n    ", "\n").strip().splitlines()
    return launched(*lines, *more.splitlines(), before="import subprocess\n")


def test_what_only_asks_for_the_first_host_goes_with_its_address() -> None:
    text = run_only(asking(), "process_groups")
    assert "SLURM_NODELIST" not in text
    assert "scontrol" not in text
    assert "MASTER_" not in text
    assert "port = count_up()" in text  # which may do more than answer


def test_what_is_said_of_hosts_besides_stays() -> None:
    text = run_only(asking("print(hosts)"), "process_groups")
    assert 'hosts = os.environ["SLURM_NODELIST"]' in text
    assert "scontrol" not in text


def test_what_something_else_that_is_written_anew_reads_stays() -> None:
    lines = ['path = os.environ["CKPT"]', 'os.environ["MASTER_ADDR"] = path', 'x = torch.load(path, "cuda")']
    assert 'path = os.environ["CKPT"]' in migrate(launched(*lines)).code


def test_what_nothing_reads_is_left() -> None:
    text = run_only(launched('hosts = os.environ["SLURM_NODELIST"]'), "process_groups")
    assert 'hosts = os.environ["SLURM_NODELIST"]' in text
