from __future__ import annotations

import pytest
from transforms.helpers import check_noop, check_transformed, findings, migrate

DEVICE = (
    "several_devices",
    "device",
    "device_types",
    "type_names",
    "device_moves",
    "device_choice",
    "device_guards",
    "device_options",
    "data_parallel",
    "availability",
)


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


class TestMoves:
    def test_device_at_hand_is_used(self) -> None:
        check_transformed(
            """\
            import torch

            dev = torch.device("cuda")


            def evaluate(model, x):
                return model.cuda()(x.cuda(non_blocking=True))
            """,
            """\
            import torch
            import torch_xla

            dev = torch_xla.device()


            def evaluate(model, x):
                return model.to(dev)(x.to(dev, non_blocking=True))
            """,
            *DEVICE,
        )

    def test_device_of_the_object_is_used(self) -> None:
        check_transformed(
            """\
            import torch


            class Trainer:
                def __init__(self, model):
                    self.device = torch.device("cuda")
                    self.model = model.cuda()

                def step(self, x):
                    return self.model(x.cuda(0))
            """,
            """\
            import torch
            import torch_xla


            class Trainer:
                def __init__(self, model):
                    self.device = torch_xla.device()
                    self.model = model.to(self.device)

                def step(self, x):
                    return self.model(x.to(self.device))
            """,
            *DEVICE,
        )

    def test_one_move_names_the_device_itself(self) -> None:
        check_transformed(
            "import torch\n\n\ndef build():\n    return (Net() if wide else Small()).cuda()\n",
            "import torch\nimport torch_xla\n\n\ndef build():\n"
            "    return (Net() if wide else Small()).to(torch_xla.device())\n",
            *DEVICE,
        )

    def test_several_moves_get_a_variable_above_the_outermost_block(self) -> None:
        check_transformed(
            """\
            import torch


            def train(model, feed):
                for x, y in feed():
                    x, y = x.cuda(), y.cuda()
                    model(x)
            """,
            """\
            import torch
            import torch_xla


            def train(model, feed):
                device = torch_xla.device()
                for x, y in feed():
                    x, y = x.to(device), y.to(device)
                    model(x)
            """,
            *DEVICE,
        )

    def test_variable_of_the_module_serves_its_functions(self) -> None:
        check_transformed(
            """\
            import torch


            def score(x):
                return net(x.cuda())


            net = Net().cuda()
            score(torch.zeros(2))
            """,
            """\
            import torch
            import torch_xla


            def score(x):
                return net(x.to(device))


            device = torch_xla.device()
            net = Net().to(device)
            score(torch.zeros(2))
            """,
            *DEVICE,
        )

    def test_name_device_that_is_taken_is_not_taken_again(self) -> None:
        code = """\
        import torch

        device = "the big one"
        print(device)
        net = Net().cuda()
        loss = torch.nn.MSELoss().cuda()
        """
        assert migrate(code, *DEVICE).code.count(".to(torch_xla.device())") == 2

    def test_move_under_a_flag_stays_under_it(self) -> None:
        check_transformed(
            """\
            import torch

            if args.cuda and torch.cuda.is_available():
                model.cuda()
            for x in feed:
                if args.cuda:
                    x = x.cuda()
                use(x)
            """,
            """\
            import torch
            import torch_xla

            if args.cuda:
                model.to(torch_xla.device())
            for x in feed:
                if args.cuda:
                    x = x.to(torch_xla.device())
                use(x)
            """,
            *DEVICE,
        )

    def test_move_without_a_flag_does_not_follow_the_flag(self) -> None:
        code = """\
        import torch

        device = torch.device("cuda" if args.cuda else "cpu")
        net = Net().to(device)
        loss = torch.nn.MSELoss().cuda()
        """
        assert "MSELoss().to(torch_xla.device())" in migrate(code, *DEVICE).code

    def test_numbers_and_nested_moves(self) -> None:
        check_transformed(
            """\
            import torch

            rank = int(0)
            device = torch.device("cuda")
            net = Net(torch.zeros(2).cuda()).cuda(rank, True)
            x = torch.zeros(2).to(rank)
            y = torch.zeros(2, device=0).to(torch.device(0))
            z = torch.zeros(2, device="cuda").to("cuda:0", non_blocking=True)
            """,
            """\
            import torch
            import torch_xla

            rank = int(0)
            device = torch_xla.device()
            net = Net(torch.zeros(2).to(device)).to(device, non_blocking=True)
            x = torch.zeros(2).to(device)
            y = torch.zeros(2, device=device).to(torch_xla.device())
            z = torch.zeros(2, device=device).to(device, non_blocking=True)
            """,
            *DEVICE,
        )


class TestAvailability:
    def test_branch_that_was_taken_is_kept_with_its_comments(self) -> None:
        check_transformed(
            """\
            import torch

            if torch.cuda.is_available():  # fast
                # the big model
                model = Net(
                    width=2,
                ).cuda()
            else:
                model = Small()
            """,
            """\
            import torch
            import torch_xla

            # fast
            # the big model
            model = Net(
                width=2,
            ).to(torch_xla.device())
            """,
            *DEVICE,
        )

    def test_lines_of_a_long_string_do_not_move(self) -> None:
        code = 'import torch\n\nif torch.cuda.is_available():\n    text = """a\n    b"""\n    m.cuda()\n'
        assert 'if True:\n    text = """a\n    b"""\n' in migrate(code, *DEVICE).code

    @pytest.mark.parametrize(
        ("native", "expected"),
        [
            ("if not torch.cuda.is_available():\n    raise SystemExit\nrun()\n", "run()\n"),
            ('assert torch.cuda.is_available(), "no GPU"\nrun()\n', "run()\n"),
            ("if torch.cuda.is_available() and debug:\n    run()\n", "if debug:\n    run()\n"),
            ("if cpu or not torch.cuda.is_available():\n    run()\n", "if cpu:\n    run()\n"),
            (
                "if a and (b or c) and torch.cuda.is_available():\n    run()\n",
                "if a and (b or c):\n    run()\n",
            ),
            (
                "if torch.cuda.is_available() and (b or c) and a:\n    run()\n",
                "if (b or c) and a:\n    run()\n",
            ),
            ("if torch.cuda.device_count() > 1:\n    split()\nrun()\n", "run()\n"),
            ("has = torch.cuda.is_available()\nrun(has)\n", "has = True\nrun(has)\n"),
            ("n = 2 if torch.cuda.is_available() else 1\nrun(n)\n", "n = 2\nrun(n)\n"),
            (
                "if a:\n    one()\nelif torch.cuda.is_available():\n    two()\nelse:\n    three()\n",
                "if a:\n    one()\nelse:\n    two()\n",
            ),
            (
                "if not torch.cuda.is_available():\n    one()\nelif a:\n    two()\nelse:\n    three()\n",
                "if a:\n    two()\nelse:\n    three()\n",
            ),
            (
                "if a:\n    one()\nelif not torch.cuda.is_available():\n    two()\nelif b:\n    three()\n",
                "if a:\n    one()\nelif b:\n    three()\n",
            ),
            (
                "if not torch.cuda.is_available():\n    one()\n"
                "elif torch.cuda.is_available():\n    two()\nelse:\n    x()\n",
                "two()\n",
            ),
            (
                "if torch.backends.mps.is_available():\n    one()\n"
                "elif torch.cuda.is_available():\n    two()\n",
                "if torch.backends.mps.is_available():\n    one()\nelse:\n    two()\n",
            ),
            ("if torch.cuda.is_available(): one()\nelse: two()\n", "one()\n"),
            (
                "def f():\n    if torch.cuda.is_available():\n        one()\n    return 1\n",
                "def f():\n    one()\n    return 1\n",
            ),
        ],
    )
    def test_conditions(self, native: str, expected: str) -> None:
        check_transformed(f"import torch\n\n{native}", f"import torch\n\n{expected}", *DEVICE)

    def test_guard_of_what_went_away_goes_too(self) -> None:
        check_transformed(
            "import torch\n\nif args.gpu_id:\n    torch.cuda.set_device(0)\nmodel.run()\n",
            "import torch\n\nmodel.run()\n",
            *DEVICE,
        )

    def test_flag_of_the_user_is_not_folded(self) -> None:
        check_transformed(
            "import torch\n\nuse_cuda = torch.cuda.is_available()\nif use_cuda:\n    fast()\n",
            "import torch\n\nuse_cuda = True\nif use_cuda:\n    fast()\n",
            *DEVICE,
        )


class TestGuards:
    @pytest.mark.parametrize(
        ("native", "expected"),
        [
            ("x.is_cuda", "x.is_xla"),
            ("next(model.parameters()).is_cuda", "next(model.parameters()).is_xla"),
            ('device.type == "cuda"', 'device.type == "xla"'),
            ("'cuda' != device.type", "'xla' != device.type"),
            ('"cuda" in str(device)', '"xla" in str(device)'),
            ('str(device).startswith("cuda")', 'str(device).startswith("xla")'),
            ('device == torch.device("cuda")', 'device.type == "xla"'),
            ('device.type in ("cuda", "mps")', 'device.type in ("xla", "mps")'),
            ('x.device.type == "cuda"', 'x.device.type == "xla"'),
        ],
    )
    def test_questions_get_the_answer_they_had(self, native: str, expected: str) -> None:
        head = "import torch\n{}\n\ndef f(model, x, device: torch.device):\n    if "
        check_transformed(
            head.format("") + native + ":\n        run(x)\n",
            head.format("") + expected + ":\n        run(x)\n",
            *DEVICE,
        )

    def test_comparison_with_the_cpu_stays(self) -> None:
        check_noop(
            'import torch\n\n\ndef f(device: torch.device):\n    return device.type != "cpu"  # cuda\n',
            *DEVICE,
        )

    def test_unknown_comparison_is_reported(self) -> None:
        code = 'import torch\n\nif backend() == "cuda":\n    run()\n'
        check_noop(code, *DEVICE)
        assert findings(code, *DEVICE) == [("XLA113", 3)]


class TestOptions:
    def test_option_is_read_as_the_xla_device_once(self) -> None:
        check_transformed(
            """\
            import argparse

            import torch

            parser = argparse.ArgumentParser()
            parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
            args = parser.parse_args()
            model = Net().to(args.device)
            if args.device == "cuda":
                print("on the device")
            """,
            """\
            import argparse

            import torch

            parser = argparse.ArgumentParser()
            parser.add_argument("--device", default="cuda")
            args = parser.parse_args()
            if args.device.startswith("cuda"):
                args.device = "xla"
            model = Net().to(args.device)
            if args.device == "xla":
                print("on the device")
            """,
            *DEVICE,
        )

    def test_option_without_a_default_may_be_none(self) -> None:
        check_transformed(
            """\
            import argparse

            import torch


            def parse_args():
                parser = argparse.ArgumentParser()
                parser.add_argument("--device", choices=["cuda", "cpu"])
                return parser.parse_args()


            def main():
                args = parse_args()
                model = Net().to(args.device or "cpu")
            """,
            """\
            import argparse

            import torch


            def parse_args():
                parser = argparse.ArgumentParser()
                parser.add_argument("--device", choices=["cuda", "cpu"])
                return parser.parse_args()


            def main():
                args = parse_args()
                if args.device and args.device.startswith("cuda"):
                    args.device = "xla"
                model = Net().to(args.device or "cpu")
            """,
            *DEVICE,
        )

    def test_arguments_that_a_function_takes_are_read_at_its_head(self) -> None:
        code = """\
        import argparse

        import torch

        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="cuda:0")


        def main(args):
            device = torch.device(args.device)
            net = Net().to(device)


        main(parser.parse_args())
        """
        head = (
            '    if args.device.startswith("cuda"):\n        args.device = "xla"\n    device = torch.device'
        )
        assert head in migrate(code, *DEVICE).code

    def test_option_for_something_else_stays(self) -> None:
        check_noop(
            """\
            import argparse

            import torch

            parser = argparse.ArgumentParser()
            parser.add_argument("--label", default="plain")
            args = parser.parse_args()
            print(args.label, "cuda")
            """,
            *DEVICE,
        )


class TestChoice:
    def test_device_context_is_taken_away(self) -> None:
        check_transformed(
            """\
            import torch

            torch.cuda.set_device(args.gpu)
            with torch.cuda.device(0):
                net = Net()
                net.run()
            with torch.no_grad(), torch.cuda.device(0):
                net.run()
            with torch.cuda.device(0), torch.no_grad():
                net.run()
            """,
            """\
            import torch

            net = Net()
            net.run()
            with torch.no_grad():
                net.run()
            with torch.no_grad():
                net.run()
            """,
            *DEVICE,
        )

    def test_default_tensor_type_becomes_the_default_device(self) -> None:
        check_transformed(
            'import torch\n\ntorch.set_default_tensor_type("torch.cuda.HalfTensor")\n',
            "import torch\nimport torch_xla\n\n"
            "torch.set_default_device(torch_xla.device())\ntorch.set_default_dtype(torch.float16)\n",
            *DEVICE,
        )


class TestTypes:
    @pytest.mark.parametrize(
        ("native", "expected"),
        [
            ("torch.cuda.FloatTensor([0.5])", "torch.tensor([0.5], device=device)"),
            ("torch.cuda.FloatTensor([1, 2])", "torch.tensor([1, 2], dtype=torch.float32, device=device)"),
            ("torch.cuda.LongTensor([1])", "torch.tensor([1], dtype=torch.int64, device=device)"),
            ("torch.cuda.FloatTensor(2, 3).zero_()", "torch.empty(2, 3, device=device).zero_()"),
            ("torch.cuda.FloatTensor(*shape)", "torch.empty(*shape, device=device)"),
            ("torch.cuda.ByteTensor(data)", "torch.ByteTensor(data).to(device)"),
            ("y.type(torch.cuda.LongTensor)", "y.to(device, torch.int64)"),
            ("y.type('torch.cuda.FloatTensor')", "y.to(device, torch.float32)"),
        ],
    )
    def test_legacy_types(self, native: str, expected: str) -> None:
        head = "import torch\n{}\ndevice = {}\nnet = Net().to(device)\nx = "
        check_transformed(
            head.format("", 'torch.device("cuda")') + native + "\n",
            head.format("import torch_xla\n", "torch_xla.device()") + expected + "\n",
            *DEVICE,
        )

    def test_type_that_stands_for_a_place_becomes_a_device(self) -> None:
        check_transformed(
            """\
            import torch

            Tensor = torch.cuda.FloatTensor if args.cuda else torch.FloatTensor
            x = Tensor(2, 3)
            y = torch.rand(2).type(Tensor)
            """,
            """\
            import torch
            import torch_xla

            device = torch_xla.device() if args.cuda else torch.device("cpu")
            Tensor = torch.FloatTensor
            x = Tensor(2, 3).to(device)
            y = torch.rand(2).to(device, torch.float32)
            """,
            *DEVICE,
        )

    def test_type_that_is_handed_on_is_reported(self) -> None:
        code = "import torch\n\nbuild(torch.cuda.FloatTensor)\n"
        check_noop(code, *DEVICE)
        assert findings(code, *DEVICE) == [("XLA194", 3)]


class TestDataParallel:
    def test_wrapper_goes_and_module_is_the_model(self) -> None:
        outcome = check_transformed(
            """\
            import torch
            import torch.nn as nn

            net = Net()
            if torch.cuda.device_count() > 1:
                net = nn.DataParallel(net)
            net = net.cuda()
            core = net.module if hasattr(net, "module") else net
            torch.save(net.module.state_dict(), "m.pt")
            """,
            """\
            import torch
            import torch.nn as nn
            import torch_xla

            net = Net()
            net = net.to(torch_xla.device())
            core = net
            torch.save(net.state_dict(), "m.pt")
            """,
            *DEVICE,
        )
        assert [(f.code, f.severity.label) for f in outcome.findings] == [("XLA121", "warning")]
        assert "batch" in outcome.findings[0].message

    def test_wrapper_inside_an_expression(self) -> None:
        check_transformed(
            "import torch\n\nmodel = torch.nn.DataParallel(Net(), device_ids=[0, 1]).cuda()\n",
            "import torch\nimport torch_xla\n\nmodel = Net().to(torch_xla.device())\n",
            *DEVICE,
        )

    def test_module_of_something_else_stays(self) -> None:
        code = """\
        import torch

        net = torch.nn.DataParallel(Net())
        ema = Average(net)
        print(ema.module)
        """
        assert "ema.module" in migrate(code, *DEVICE).code


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
