"""Options of the command line that choose a device, and tensor types."""

from __future__ import annotations

import pytest
from transforms.device_passes import DEVICE
from transforms.helpers import check_noop, check_transformed, findings, migrate, run_only

from xla_transforms.engine import migrate_program


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

    def test_arguments_that_a_constructor_takes_are_read_at_its_head(self) -> None:
        code = """\
        import argparse

        import torch


        def parse():
            parser = argparse.ArgumentParser()
            parser.add_argument("--device", default="cuda")
            return parser.parse_args()


        class Base:
            def __init__(self, args):
                self.net = torch.nn.Linear(2, 2).to(args.device)


        class Trainer(Base):
            pass


        Trainer(parse()).fit()
        """
        outcome = migrate(code, *DEVICE)
        head = '        if args.device.startswith("cuda"):\n            args.device = "xla"\n        self.net'
        assert head in outcome.code
        assert not outcome.findings

    def test_lines_at_the_head_of_a_function_leave_it_its_docstring(self) -> None:
        code = """\
        import argparse

        import torch


        def main(args):
            \"\"\"Train.\"\"\"
            net = torch.nn.Linear(2, 2).to(args.device)


        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="cuda")
        main(parser.parse_args())
        """
        assert 'def main(args):\n    """Train."""\n    if args.device' in migrate(code, *DEVICE).code

    def test_option_without_a_line_that_names_the_arguments_is_reported(self) -> None:
        code = """\
        import argparse

        import torch

        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="cuda")
        torch.nn.Linear(2, 2).to(parser.parse_args().device)
        """
        (finding,) = migrate(code, *DEVICE).findings
        assert (finding.code, finding.span.line) == ("XLA195", 6)
        assert finding.advice == 'where device is used, turn "cuda" into "xla"'

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

    @pytest.mark.parametrize(
        "items",
        [
            'open("a") as f, torch.cuda.device(0)', 'torch.cuda.device(0), open("a") as f',
            'torch.cuda.device(0), open("a") as f, torch.cuda.device(0), torch.cuda.device(0)',
        ],
    )  # fmt: skip
    def test_a_context_beside_one_with_a_name_goes_alone(self, items: str) -> None:
        code = "import torch\n\nwith {}:\n    print(f)\n"
        check_transformed(code.format(items), code.format('open("a") as f'), *DEVICE)

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


def test_an_option_that_several_parsers_have_is_read_once() -> None:
    parser = b"import argparse\n\n\ndef options():\n    parser = argparse.ArgumentParser()\n" \
        b'    parser.add_argument("--device", default="cuda")\n    return parser\n'
    files = {
        "pretrain.py": parser,
        "finetune.py": parser,
        "train.py": b"import torch\nimport finetune\nimport pretrain\n\n"
        b"chosen = pretrain if big else finetune\n"
        b"args = chosen.options().parse_args()\nnet.to(args.device)\n",
    }
    text = migrate_program(files)["train.py"].code
    assert text.count('args.device = "xla"') == 1


PARSERS = """
    import argparse
    import torch
    parser = config_parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--config", default="")
    {}
    group = parser.add_argument_group("device")
    group.add_argument("--device", default="cuda")


    def parse():
        known, rest = config_parser.parse_known_args()
        args = parser.parse_args(rest)
        return args, known


    args, known = parse()
    model = torch.nn.Linear(2, 2).to(args.device)
"""


def test_an_option_is_read_behind_the_line_that_parses_it() -> None:
    text = run_only(PARSERS.format("parser = argparse.ArgumentParser()"), "device_options")
    assert "parse_known_args()\n    args = parser.parse_args(rest)\n    if args.device.startswith" in text


@pytest.mark.parametrize("line", ["pass", "parser = argparse.ArgumentParser(parents=[config_parser])"])
def test_a_parser_that_may_have_the_option_reads_it(line: str) -> None:
    text = run_only(PARSERS.format(line), "device_options")
    assert "    args = parser.parse_args(rest)\n    if args.device.startswith" in text


def test_two_parsers_of_functions_are_told_apart() -> None:
    code = """
        import argparse
        import torch


        def main():
            parser = argparse.ArgumentParser()
            parser.add_argument("--device", default="cuda")
            args = parser.parse_args()
            model = torch.nn.Linear(2, 2).to(args.device)


        def plot():
            parser = argparse.ArgumentParser()
            parser.add_argument("--file")
            args = parser.parse_args()
            print(args.file)
    """
    text = run_only(code, "device_options")
    assert text.count("args.device.startswith") == 1


READ = '    if args.device.startswith("cuda"):' + "\n"


@pytest.mark.parametrize(
    "lines",
    [
        ("parser = argparse.ArgumentParser(parents=[common])",),
        ("parser = common", "if extended:", "    parser = argparse.ArgumentParser(parents=[common])"),
        ("parser = common", "if extended:", "    parser = extend(common)"),
    ],
)
def test_an_option_that_another_parser_may_have_taken_over_is_read(lines: tuple[str, ...]) -> None:
    body = "\n".join(f"    {line}" for line in lines)
    code = (
        "import argparse\nimport torch\n\n\ndef main():\n"
        "    common = argparse.ArgumentParser(add_help=False)\n"
        f'    common.add_argument("--device", default="cuda")\n{body}\n'
        "    args = parser.parse_args()\n    model = torch.nn.Linear(2, 2).to(args.device)\n"
    )
    assert READ in run_only(code, "device_options")


def test_a_parser_that_may_be_replaced_may_still_have_the_option() -> None:
    code = (
        "import argparse\nimport torch\n\n\ndef main():\n    parser = argparse.ArgumentParser()\n"
        '    parser.add_argument("--device", default="cuda")\n    if other:\n'
        "        parser = argparse.ArgumentParser()\n"
        "    args = parser.parse_args()\n    model = torch.nn.Linear(2, 2).to(args.device)\n"
    )
    assert READ in run_only(code, "device_options")
