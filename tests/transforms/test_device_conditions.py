"""Conditions on CUDA: whether it is there, and guards that ask about a device."""

from __future__ import annotations

import pytest
from transforms.device_passes import DEVICE
from transforms.helpers import check_noop, check_transformed, findings, migrate, run_only


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
            ('if hasattr(torch.cuda, "amp") and b:\n    run()\n', "if b:\n    run()\n"),
            (
                'if hasattr(torch.cuda.amp, "autocast"):\n    run()\nelse:\n    old()\n',
                "run()\n",
            ),
            ('has = hasattr(torch.cuda, "amp")\nrun(has)\n', "has = True\nrun(has)\n"),
            ("if getattr(torch.cuda.amp, 'autocast') is not None:\n    run()\n", "run()\n"),
            ("if getattr(torch.cuda.amp, 'GradScaler', None) is None:\n    old()\nrun()\n", "run()\n"),
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
            ('str(device) == "cuda:0"', 'device.type == "xla"'),
            ('str(device) != "cuda"', 'device.type != "xla"'),
            ('"cuda" in str(device)', '"xla" in str(device)'),
            ('str(device).startswith("cuda")', 'str(device).startswith("xla")'),
            ('device == torch.device("cuda")', 'device.type == "xla"'),
            ('device.type in ("cuda", "mps")', 'device.type in ("xla", "mps")'),
            ('x.device.type == "cuda"', 'x.device.type == "xla"'),
            ("x.type() == 'torch.cuda.HalfTensor'", "x.type() == 'torch.xla.HalfTensor'"),
            (
                'x.type() in ("torch.cuda.HalfTensor", "torch.HalfTensor")',
                'x.type() in ("torch.xla.HalfTensor", "torch.HalfTensor")',
            ),
            (
                '"cuda" in str(next(ours.parameters()).device)',
                '"xla" in str(next(ours.parameters()).device)',
            ),
        ],
    )
    def test_questions_get_the_answer_they_had(self, native: str, expected: str) -> None:
        head = "import torch\n{}\nclass Ours(lib.Base): pass\nours = Ours()\n"
        head += "def f(model, x, device: torch.device):\n    if "
        check_transformed(
            head.format("") + native + ":\n        run(x)\n",
            head.format("") + expected + ":\n        run(x)\n",
            *DEVICE,
        )

    def test_what_a_release_may_lack_is_asked_as_before(self) -> None:
        code = 'import torch\n\nx = torch.ones(1)\nif hasattr(torch.cuda, "memory_usage"):\n    x.cuda()\n'
        assert 'if hasattr(torch.cuda, "memory_usage"):\n' in migrate(code, *DEVICE).code

    def test_comparison_with_the_cpu_stays(self) -> None:
        check_noop(
            'import torch\n\n\ndef f(device: torch.device):\n    return device.type != "cpu"  # cuda\n',
            *DEVICE,
        )

    def test_the_text_of_a_device_among_several_is_reported(self) -> None:
        code = 'import torch\n\n\ndef f(device: torch.device):\n    return str(device) in ("cuda:0", "cpu")\n'
        assert findings(code, *DEVICE) == [("XLA113", 5)]

    def test_unknown_comparison_is_reported(self) -> None:
        code = 'import torch\n\nif backend() == "cuda":\n    run()\n'
        check_noop(code, *DEVICE)
        assert findings(code, *DEVICE) == [("XLA113", 3)]

    @pytest.mark.parametrize(
        "test", ['"cuda" in str(x.where)', 'str(x.where).startswith("cuda")', '"cuda" == str(where())']
    )
    def test_the_text_of_something_unknown_is_reported(self, test: str) -> None:
        code = f"import torch\nfrom lib import where\n\n\ndef f(x):\n    return {test}\n"
        check_noop(code, *DEVICE)
        assert findings(code, *DEVICE) == [("XLA113", 6)]


EMPTIED = """\
import torch
from torch.backends import cudnn

if args.fast:
    # fast
    cudnn.benchmark = True
elif args.exact:
    cudnn.benchmark = False
else:
    {}
x = torch.ones(1).cuda()
"""


def test_a_way_with_something_to_do_keeps_the_others() -> None:
    text = migrate(EMPTIED.format("print(args.fast)")).code
    assert "    # fast\n    pass\nelif args.exact:\n    pass\nelse:\n    print(args.fast)\n" in text


def test_a_choice_of_nothing_goes_with_all_its_ways() -> None:
    text = migrate(EMPTIED.format("cudnn.deterministic = True")).code
    assert "args" not in text
    assert "\n# fast\nx = " in text


LEAVING = """\
import torch


def choose():
    if torch.cuda.is_available():
        {}
    # the slow way
    print("no GPU")
    return torch.device("cpu")


x = torch.ones(1).to(choose())
"""


def test_what_is_not_reached_any_more_goes() -> None:
    text = run_only(LEAVING.format('return torch.device("cuda")'))
    assert 'def choose():\n    return torch_xla.device()\n    # the slow way\n\n\nx = ' in text


@pytest.mark.parametrize("line", ["print(1)", "x = yield", "def f(): return 1"])
def test_what_is_reached_stays(line: str) -> None:
    assert '    print("no GPU")\n' in run_only(LEAVING.format(line), "availability")


def test_what_makes_a_function_a_generator_stays() -> None:
    code = LEAVING.format("return 1").replace('print("no GPU")', "yield 2")
    assert "    yield 2\n" in run_only(code, "availability")
