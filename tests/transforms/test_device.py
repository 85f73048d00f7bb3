from __future__ import annotations

import pytest
from transforms.device_passes import DEVICE
from transforms.helpers import check_noop, check_transformed, findings, migrate


@pytest.mark.parametrize(
    "code",
    [
        'import torch\ndevice = torch.device("cpu")\nx = torch.zeros(2, device=device)\n',
        'import torch\n\n# runs on the CPU, not on cuda\nprint("no cuda here")\nx = torch.zeros(2)\n',
        'import torch\nnotes = {"cuda": 1, "cpu": 2}\nprint(notes["cuda"])\n',
        'import torch\nfrom argparse import ArgumentParser as P\nP().add_argument("-x", help="as cuda")\n',
        'import torch\nprint("CUDA:", torch.cuda.is_available())\n',
        'import torch\ntorch.set_default_tensor_type("torch.DoubleTensor")\n',
        "class Box:\n    def cuda(self):\n        return self\n\n\ntorch_device = 0\n",
    ],
    ids=[
        "cpu device",
        "comment and print",
        "dictionary key",
        "help text",
        "shown",
        "other type",
        "own method",
    ],
)
def test_what_names_no_device_stays(code: str) -> None:
    check_noop(code, *DEVICE)


def test_own_output_stays() -> None:
    check_noop(
        """\
        import argparse

        import torch
        import torch_xla

        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="cuda")
        args = parser.parse_args()
        if args.device.startswith("cuda"):
            args.device = "xla"
        model = torch.nn.Linear(2, 2).to(torch.device(args.device))
        other = torch_xla.device() if args.device == "xla" else torch.device("cpu")
        """,
        *DEVICE,
    )


@pytest.mark.parametrize(
    "spelling",
    [
        'torch.device("cuda")',
        "torch.device('cuda:0')",
        'torch.device("cuda", 0)',
        'torch.device("cuda", args.gpu)',
        'torch.device(f"cuda:{args.gpu}")',
        'torch.device("cuda:{}".format(args.gpu))',
        'torch.device("cuda:%d" % args.gpu)',
        'torch.device("cuda:" + str(args.gpu))',
        'torch.device(type="cuda", index=0)',
        'torch.device("cuda" if torch.cuda.is_available() else "cpu")',
        'torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")',
        'torch.device("cpu" if not torch.cuda.is_available() else "cuda:0")',
        'torch.device("cuda" if torch.cuda.is_available() else "mps" if mps() else "cpu")',
        "torch.accelerator.current_accelerator()",
        'torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"',
        '"cuda"',
        '"cuda:0" if torch.cuda.is_available() else "cpu"',
    ],
)
def test_every_spelling_of_the_device_becomes_the_xla_device(spelling: str) -> None:
    code = f"import torch\n\nargs = get_args()\ndevice = {spelling}\nmodel = Net().to(device)\n"
    expected = (
        "import torch\nimport torch_xla\n\nargs = get_args()\n"
        "device = torch_xla.device()\nmodel = Net().to(device)\n"
    )
    check_transformed(code, expected, *DEVICE)


def test_choice_of_the_user_stays() -> None:
    check_transformed(
        """\
        import torch

        use_cuda = not args.no_cuda and torch.cuda.is_available()
        device = torch.device("cuda" if use_cuda else "cpu")
        """,
        """\
        import torch
        import torch_xla

        use_cuda = not args.no_cuda
        device = torch_xla.device() if use_cuda else torch.device("cpu")
        """,
        *DEVICE,
    )


def test_other_devices_of_a_chain_stay_where_the_user_chooses() -> None:
    check_transformed(
        """\
        import torch

        use_cuda = args.cuda and torch.cuda.is_available()
        if use_cuda:
            device = torch.device("cuda")
        elif torch.backends.mps.is_available():
            device = torch.device("mps")
        else:
            device = torch.device("cpu")
        """,
        """\
        import torch
        import torch_xla

        use_cuda = args.cuda
        if use_cuda:
            device = torch_xla.device()
        elif torch.backends.mps.is_available():
            device = torch.device("mps")
        else:
            device = torch.device("cpu")
        """,
        *DEVICE,
    )


def test_name_that_is_read_as_a_string_becomes_the_string() -> None:
    check_transformed(
        """\
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        device_type = "cuda" if "cuda" in device else "cpu"
        if device.startswith("cuda"):
            print("fast")
        if device_type == "cuda":
            model = Net().to(device)
        """,
        """\
        import torch

        device = "xla"
        device_type = "xla" if "xla" in device else "cpu"
        if device.startswith("xla"):
            print("fast")
        if device_type == "xla":
            model = Net().to(device)
        """,
        *DEVICE,
    )


def test_name_that_may_be_the_cpu_stays_a_string() -> None:
    check_transformed(
        """\
        import torch

        device = "cuda" if args.fast else "cpu"
        model = Net().to(device)
        """,
        """\
        import torch

        device = "xla" if args.fast else "cpu"
        model = Net().to(device)
        """,
        *DEVICE,
    )


def test_names_in_defaults_dataclasses_and_dictionaries_become_strings() -> None:
    check_transformed(
        """\
        from dataclasses import dataclass

        import torch


        @dataclass
        class Config:
            device: str = "cuda"


        def train(model, device="cuda:0"):
            return model.to(device)


        settings = {"device": 'cuda', "lr": 0.1}
        options = dict(device="cuda")
        config = Config()
        train(Net().to(config.device))
        x = torch.zeros(2, device=settings["device"]).to(options["device"])
        """,
        """\
        from dataclasses import dataclass

        import torch


        @dataclass
        class Config:
            device: str = "xla"


        def train(model, device="xla"):
            return model.to(device)


        settings = {"device": 'xla', "lr": 0.1}
        options = dict(device="xla")
        config = Config()
        train(Net().to(config.device))
        x = torch.zeros(2, device=settings["device"]).to(options["device"])
        """,
        *DEVICE,
    )


def test_name_whose_way_is_lost_is_reported() -> None:
    code = 'import torch\n\nstart_engine("cuda")\n'
    check_noop(code, *DEVICE)
    assert findings(code, *DEVICE) == [("XLA190", 3)]


def test_a_table_by_types_of_devices_that_lacks_the_xla_device_is_reported() -> None:
    table = '{"cuda": "nccl", "cpu": "gloo"%s}'
    code = f"import torch\n\n\ndef f(kind):\n    x.cuda()\n    names = {table}\n    return names.get(kind)\n"
    assert findings(code % "", "device") == [("XLA190", 6)]
    assert findings(f"import torch\nx.cuda()\nprint({table}[kind])\n" % "", "device") == [("XLA190", 3)]
    assert findings(code % ', "xla": "xla"', "device") == []
    assert findings(code.replace("cpu", "torch") % "", "device") == []
    assert findings(code.replace("get(kind)", "copy()") % "", "device") == []


def test_device_of_a_configuration_is_reported() -> None:
    code = 'import torch\n\nmodel = net.cuda()\ndevice = torch.device(cfg["device"])\n'
    assert findings(code, *DEVICE) == [("XLA192", 4)]


def test_model_split_over_two_gpus_is_left_and_reported() -> None:
    code = """\
    import torch

    first = torch.nn.Linear(2, 2).to("cuda:0")
    second = torch.nn.Linear(2, 2).cuda(1)
    """
    outcome = check_noop(code, *DEVICE)
    assert [(f.code, f.severity.label) for f in outcome.findings] == [("XLA191", "error")] * 2


def test_a_device_and_a_number_in_one_string() -> None:
    check_transformed(
        """\
        import torch

        kind = torch.accelerator.current_accelerator()
        device = torch.device(f"{kind}:{rank}")
        text = f"{kind}:{rank}"
        print(f"{kind}:{rank}")
        print(f"{kind}: {rank}")
        """,
        """\
        import torch
        import torch_xla

        kind = torch_xla.device()
        device = torch_xla.device()
        text = f"{kind.type}:{rank}"
        print(f"{kind}:{rank}")
        print(f"{kind}: {rank}")
        """,
    )


def test_a_device_word_to_which_a_number_is_joined_stays_a_word() -> None:
    check_transformed(
        """\
        import torch

        kind = "cuda"
        device = torch.device(f"{kind}:{rank}")
        x = x.to(f"{kind}:0")
        """,
        """\
        import torch
        import torch_xla

        kind = "xla"
        device = torch_xla.device()
        x = x.to(f"{kind}:0")
        """,
    )


def test_a_gpu_number_that_says_how_processes_share_the_gpus_is_the_users() -> None:
    outcome = migrate(
        """\
        import torch
        from torch.nn.parallel import DistributedDataParallel as DDP

        if args.gpu is not None:
            model.cuda(args.gpu)
            args.batch_size = int(args.batch_size / ngpus)
            model = DDP(model, device_ids=[args.gpu])
        else:
            model.cuda()
            model = DDP(model)
        """
    )
    assert "if args.gpu is not None:" in outcome.code
    assert ".cuda(" not in outcome.code
