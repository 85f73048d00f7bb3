"""Seeds of the XLA device, states of its generator, generators that lived on the GPU."""

from __future__ import annotations

import pytest
from transforms.helpers import check_noop, check_transformed, findings, run_only

from xla_transforms.engine import migrate_program


def test_a_seed_in_front_of_the_imports_gets_its_import_above() -> None:
    code = "import torch; torch.manual_seed(0)\nimport sys\nx = torch.ones(2).cuda()\n"
    assert run_only(code).startswith("import torch_xla\nimport torch; torch.manual_seed(0)\n")


def test_seed_of_a_cpu_script_stays() -> None:
    check_noop("import torch\n\ntorch.manual_seed(0)\n")


def test_seed_of_a_test_that_speaks_of_no_gpu_stays() -> None:
    seeds = "import torch.optim\nimport {}\nfrom train import net\ntorch.manual_seed(0)\nprint(net)\n"
    train = b"import torch\nnet = torch.nn.Linear(2, 2).cuda()\n"
    for module, changed in (("unittest", False), ("timeit", True)):
        files = {"check.py": seeds.format(module).encode(), "train.py": train}
        outcome = migrate_program(files)["check.py"]
        assert (outcome.data != outcome.original) is changed


def test_seed_in_a_loaders_worker_stays() -> None:
    check_noop(
        """\
        import torch

        def seed(worker):
            torch.manual_seed(worker)

        loader = torch.utils.data.DataLoader(ds, worker_init_fn=seed)
        torch.zeros(1).cuda()
        """,
        "seeds",
    )


def test_seed_of_both_is_written_once() -> None:
    check_transformed(
        """\
        import torch

        def fix(seed):
            torch.manual_seed(seed)
            torch.cuda.manual_seed(seed)
            torch.cuda.manual_seed_all(seed)
        """,
        """\
        import torch
        import torch_xla

        def fix(seed):
            torch.manual_seed(seed)
            torch_xla.manual_seed(seed)
        """,
        "seeds",
        rules={"XLA221"},
    )


def test_seed_of_the_cpu_seeds_the_device_too() -> None:
    check_transformed(
        """\
        import random
        import torch

        torch.manual_seed(args.seed)
        generator = torch.manual_seed(random.randint(1, 9))
        if args.seed: torch.manual_seed(1)
        torch.zeros(1).cuda()
        """,
        """\
        import random
        import torch
        import torch_xla

        torch.manual_seed(args.seed)
        torch_xla.manual_seed(args.seed)
        generator = torch.manual_seed(random.randint(1, 9))
        torch_xla.manual_seed(torch.initial_seed())
        if args.seed:
            torch.manual_seed(1)
            torch_xla.manual_seed(1)
        torch.zeros(1).cuda()
        """,
        "seeds",
    )


def test_guarded_seed_of_the_device_is_enough() -> None:
    check_transformed(
        """\
        import torch

        torch.manual_seed(args.seed)
        if args.cuda:
            torch.cuda.manual_seed(args.seed)
        """,
        """\
        import torch
        import torch_xla

        torch.manual_seed(args.seed)
        if args.cuda:
            torch_xla.manual_seed(args.seed)
        """,
        "seeds",
    )


def test_seed_of_the_device_on_another_condition_is_not_enough() -> None:
    code = """\
    import torch

    torch.manual_seed(1)
    if args.again:
        torch.cuda.manual_seed(2)
    """
    assert run_only(code, "seeds").count("torch_xla.manual_seed") == 2


def test_seed_where_no_statement_can_follow_is_named() -> None:
    code = """\
    import torch

    seed = lambda s: torch.manual_seed(s)
    torch.zeros(1).cuda()
    """
    assert findings(code, "seeds") == [("XLA222", 3)]


def test_state_of_the_devices_generator() -> None:
    check_transformed(
        """\
        import torch

        state = torch.cuda.get_rng_state()
        saved = {"cuda": torch.cuda.get_rng_state_all()}
        torch.cuda.set_rng_state(state.cpu(), 0)
        if resume:
            torch.cuda.set_rng_state_all([s.cpu() for s in saved["cuda"]])
        """,
        """\
        import torch
        import torch_xla.core.xla_model as xm

        state = xm.get_rng_state()
        saved = {"cuda": [xm.get_rng_state()]}
        xm.set_rng_state(state)
        if resume:
            for rng_state in saved["cuda"]:
                xm.set_rng_state(rng_state)
        """,
        "generators",
        rules={"XLA223"},
    )


def test_state_of_the_cpu_stays() -> None:
    check_noop(
        """\
        import torch

        torch.set_rng_state(torch.get_rng_state())
        g = torch.Generator(device="cpu").manual_seed(1)
        h = torch.Generator()
        torch.zeros(1).cuda()
        """,
        "generators",
    )


@pytest.mark.parametrize("device", ['device="cuda"', '"cuda:0"', "device=device", "device"])
def test_generator_on_the_gpu_comes_to_the_cpu(device: str) -> None:
    code = f"import torch\n\ndevice = torch.device('cuda')\ng = torch.Generator({device})\n"
    expected = "import torch\n\ndevice = torch.device('cuda')\ng = torch.Generator()\n"
    check_transformed(code, expected, "generators", rules={"XLA224"})


def test_a_generator_that_is_made_where_its_device_is_another_is_left_and_told() -> None:
    code = (
        "import torch\n\n\ndef step(self, x):\n    x = x.cuda()\n    if self.generator.device != x.device:\n"
        "        self.generator = torch.Generator(x.device).manual_seed(self.seed)\n"
    )
    check_noop(code, "generators")
    assert findings(code, "generators") == [("XLA224", 7)]


def test_fork_forks_the_device_too() -> None:
    check_transformed(
        """\
        import torch

        with torch.random.fork_rng(devices=[0], enabled=args.fork):
            torch.randn(3).cuda()
        with torch.random.fork_rng(), torch.no_grad():
            torch.randn(3).cuda()
        """,
        """\
        import torch
        import torch_xla.core.xla_model as xm

        with torch.random.fork_rng(devices=[], enabled=args.fork), xm.fork_rng(
            enabled=args.fork
        ):
            torch.randn(3).cuda()
        with torch.random.fork_rng(devices=[]), xm.fork_rng(), torch.no_grad():
            torch.randn(3).cuda()
        """,
        "generators",
        rules={"XLA225"},
    )


def test_fork_that_is_no_with_is_named() -> None:
    code = """\
    import torch

    fork = torch.random.fork_rng(devices=[0])
    torch.zeros(1).cuda()
    """
    assert findings(code, "generators") == [("XLA226", 3)]


@pytest.mark.parametrize(
    "use",
    [
        "load(ds, worker_init_fn=reset)",
        'load(ds, **{"worker_init_fn": reset})',
        'options["worker_init_fn"] = reset',
        "loader.worker_init_fn = reset",
    ],
)
def test_a_function_that_another_module_gives_to_workers_stays(use: str) -> None:
    files = {
        "tools.py": b"import torch  # cuda\n\n\ndef reset(worker):\n    torch.manual_seed(worker)\n",
        "train.py": f"import torch\nfrom tools import reset\n\nx = x.cuda()\n{use}\n".encode(),
    }
    assert migrate_program(files)["tools.py"].data == files["tools.py"]
