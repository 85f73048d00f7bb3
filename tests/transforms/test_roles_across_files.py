"""What options and other files say about an expression."""

from __future__ import annotations

from textwrap import dedent

import pytest
from transforms.asking import across, folded, kinds, places
from transforms.helpers import context_of, expression

OPTIONS = """
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--no-cuda", action="store_true")
parser.add_argument("--lr", type=float, default=1.0)
parser.add_argument("-b", "--batch-size", dest="size", type=int)
args = parser.parse_args()
"""


def test_options() -> None:
    assert kinds(OPTIONS + "print(args.no_cuda)\n", "args.no_cuda") == {"boolean"}
    assert kinds(OPTIONS + "print(args.lr)\n", "args.lr") == {"number"}
    assert kinds(OPTIONS + "print(args.size)\n", "args.size") == {"number"}
    assert "option" in kinds(OPTIONS + "print(args.device)\n", "args.device")
    assert kinds(OPTIONS + "print(args.other)\n", "args.other") == set()


def test_options_that_are_parsed_with_others_left_over() -> None:
    parser = "p = argparse.ArgumentParser()\np.add_argument('--n', type=int)\n"
    unpacked = parser + "args, rest = p.parse_known_args()\n"
    assert kinds(unpacked + "args.n", "args.n") == {"number"}
    assert kinds(unpacked + "rest", "rest") == set()
    assert kinds(parser + "args = p.parse_known_args()[0]\nargs.n", "args.n") == {"number"}


def test_options_inside_a_function() -> None:
    code = OPTIONS + "def f(opt):\n    print(opt.no_cuda)\nf(args)\n"
    assert kinds(code, "opt.no_cuda") == {"boolean"}


def test_an_attribute_added_to_the_arguments() -> None:
    code = OPTIONS + "args.dev = torch.device('cuda')\ndef f(args):\n    print(args.dev)\nf(args)\n"
    assert kinds(code, "args.dev") == {"device"}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("device = torch.device('cuda')", {"cuda"}), ("device = torch.device('cuda:1')", {"cuda"}),
        ("device = 'cuda' if torch.cuda.is_available() else 'cpu'", {"cuda"}),
        ("device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')", {"cuda"}),
        ("device = torch.device('cpu')", {"cpu"}), ("device = torch.device(name)", {"?"}),
        ("device = torch.device('cuda' if use else 'cpu')", {"cuda", "cpu"}),
        ("device = torch.device(f'cuda:{rank}')", {"cuda"}), ("device = torch.device(0)", {"cuda"}),
        ("device = 'cpu'\nif torch.cuda.is_available():\n    device = 'cuda'", {"cuda"}),
        ("device = 'cpu'\nif flag:\n    device = 'cuda'", {"cuda", "cpu"}),
        ("device = torch.device('cuda:' + str(n))", {"cuda"}),
        ("device = torch.device('cuda:{}'.format(n))", {"cuda"}),
        ("device = torch.device('{}'.format(n))", {"?"}),
        ("device = 'mps' if torch.backends.mps.is_available() else 'cuda'", {"cuda"}),
        ("device = torch.accelerator.current_accelerator()", {"cuda"}),
    ],
)  # fmt: skip
def test_places_of_a_device(code: str, expected: set[str]) -> None:
    assert places(code + "\nprint(device)\n") == expected


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("torch.cuda.is_available()", True), ("not torch.cuda.is_available()", False),
        ("torch.backends.mps.is_available()", False), ("torch.cuda.device_count() > 1", False),
        ("torch.cuda.device_count() == 1", True), ("torch.cuda.device_count() >= 1", True),
        ("torch.cuda.is_available() and flag", None), ("flag and torch.cuda.is_available()", None),
        ("torch.cuda.is_available() or flag", True), ("flag and not torch.cuda.is_available()", False),
        ("flag", None), ("x.is_available()", None), ("cuda.is_available()", None), ("True", True),
        ("flag == 'cuda'", None), ("1 < 2", None),
    ],
)  # fmt: skip
def test_what_cuda_decides(condition: str, value: bool | None) -> None:
    assert folded(condition) is value


def test_conditions_through_names_and_devices() -> None:
    assert folded("use_cuda", "use_cuda = torch.cuda.is_available()\n") is True
    assert folded("use_cuda", "use_cuda = torch.cuda.is_available() and not args.no_cuda\n") is None
    assert folded("use", "use = True\nif flag:\n    use = torch.cuda.is_available()\n") is None
    assert folded("device.type == 'cuda'", "device = torch.device('cuda')\n") is True
    assert folded("device.type != 'cuda'", "device = torch.device('cuda:0')\n") is False
    assert folded("device.type == 'cpu'", "device = torch.device('cuda')\n") is False
    assert folded("device.type == 'cuda'", "device = torch.device(name)\n") is None
    assert folded("device == 'cuda'", "device = 'cuda' if flag else 'cpu'\n") is None
    assert folded("device == 'cuda:1'", "device = 'cuda' if flag else 'cpu'\n") is None
    assert folded("start == 'resume'", "start = 'scratch'\n") is None  # the user's own setting
    assert folded("kind == 'cpu'", "kind = 'cuda'\n") is False


def test_a_constant_switch_stays_open_to_the_user() -> None:
    assert folded("USE_GPU", "USE_GPU = int('1')\n") is None


def test_dead_branches() -> None:
    code = """
        import torch
        if torch.cuda.is_available():
            a = 1
        elif flag:
            b = 2
        else:
            c = 3
        """
    context = context_of(code)
    dead = [n for n in "abc" if context.roles.dead(expression(context, n))]
    assert dead == ["b", "c"]


# ---- evidence of use


def test_what_is_done_with_an_unknown_value_can_tell() -> None:
    assert kinds("def f(o):\n    o.zero_grad()\n    o.step()\n", "o") == {"optimizer"}
    assert kinds("def f(l):\n    l.backward()\n", "l") == {"tensor"}
    assert kinds("def f(s):\n    s.unscale_(o)\n", "s") == {"scaler"}
    assert kinds("def f(m):\n    m.train()\n    m.eval()\n", "m") == {"model"}


def test_zero_grad_alone_is_not_enough() -> None:
    assert kinds("def f(o):\n    o.zero_grad()\n", "o") == set()


# ---- across files

ENGINE = """
    import torch
    from torch.utils.data import DataLoader

    class Model(torch.nn.Module): ...

    def make(net):
        print(net)
        return torch.optim.SGD(net.parameters(), 1), DataLoader(d)
    """
USER = """
    opt, feed = make(Model())
    print(opt, feed)
    """


@pytest.mark.parametrize(
    ("names", "imports"),
    [
        (("engine", "train"), "from engine import make, Model"),
        (("pkg.engine", "pkg.train"), "from .engine import make, Model"),
        (("pkg.engine", "pkg.train"), "from pkg.engine import make, Model"),
        (("pkg.engine", "pkg.sub.train"), "from ..engine import make, Model"),
        (("src.engine", "src.train"), "from engine import make, Model"),
        (("engine", "train"), "from engine import make as make, Model as Model"),
    ],
)
def test_functions_and_classes_of_sibling_modules(names: tuple[str, str], imports: str) -> None:
    files = {names[0]: ENGINE, names[1]: dedent(imports) + "\n" + dedent(USER)}
    assert across(files, names[1], "opt") == {"optimizer"}
    assert across(files, names[1], "feed") == {"loader"}
    assert across(files, names[0], "net", 1) == {"model"}


@pytest.mark.parametrize(
    ("names", "imports"),
    [
        (("engine", "train"), "import engine"),
        (("pkg.engine", "pkg.train"), "from . import engine"),
        (("pkg.engine", "train"), "from pkg import engine"),
        (("pkg.engine", "train"), "import pkg.engine as engine"),
    ],
)
def test_names_of_an_imported_module(names: tuple[str, str], imports: str) -> None:
    files = {names[0]: ENGINE, names[1]: f"{imports}\nopt, feed = engine.make(engine.Model())\nprint(opt)\n"}
    assert across(files, names[1], "opt") == {"optimizer"}


def test_imports_from_a_package_file() -> None:
    files = {
        "pkg": "from .engine import make, Model\n",
        "pkg.engine": ENGINE,
        "train": "from pkg import make, Model\nopt, feed = make(Model())\nprint(opt)\n",
    }
    assert across(files, "train", "opt") == {"optimizer"}


def test_a_package_hands_on_what_it_defines() -> None:
    files = {
        "pkg": ENGINE,
        "pkg.train": "from . import make, Model\nopt, feed = make(Model())\nprint(opt)\n",
        "pkg.sub.other": "from .. import make, Model\nopt, feed = make(Model())\nprint(opt)\n",
    }
    assert across(files, "pkg.train", "opt") == {"optimizer"}
    assert across(files, "pkg.sub.other", "opt") == {"optimizer"}


def test_folders_above_the_package_do_not_matter() -> None:
    train = "from pkg.engine import make, Model\nopt, feed = make(Model())\nprint(opt)\n"
    for name in ("home.me.src.train", "home.me.scripts.train"):
        assert across({"home.me.src.pkg.engine": ENGINE, name: train}, name, "opt") == {"optimizer"}


def test_a_script_imports_from_its_own_folder() -> None:
    train = "from engine import make\nx = make(1)\nprint(x)\n"
    files = {"a.engine": ENGINE, "b.engine": "def make(x):\n    return x\n", "b.train": train}
    assert across(files, "b.train", "x") == {"number"}


def test_a_library_of_the_same_name_as_a_module_elsewhere() -> None:
    files = {"data.datasets": ENGINE, "train": "import datasets\nx = datasets.make(1)\nprint(x)\n"}
    assert across(files, "train", "x") == set()


def test_two_modules_of_the_same_last_name_are_not_guessed() -> None:
    files = {
        "a.engine": ENGINE,
        "b.engine": "def make(x):\n    return x\n",
        "train": "from engine import make\nopt, feed = make(1)\nprint(opt)\n",
    }
    assert across(files, "train", "opt") == set()


def test_modules_that_import_each_other() -> None:
    files = {"a": "from b import x\ny = x\nprint(y)\n", "b": "from a import y\nx = y\n"}
    assert across(files, "a", "y") == set()


def test_number_of_the_gpu_stands_for_the_one_device() -> None:
    move = "if args.gpu is not None:\n    model.cuda(args.gpu)\nelse:\n    model.cuda()\n"
    assert folded("args.gpu is not None", move) is True
    assert folded("args.gpu is None", move) is False
    assert folded("args.seed is not None", move) is None
    assert folded("args.gpu is not None") is None
    assert folded("args.gpu is not None", "x = x.cuda(args.gpu)\n") is True


def test_without_a_number_of_the_gpu_the_work_may_stay_on_the_cpu() -> None:
    move = "if args.gpu is not None:\n    model.cuda(args.gpu)\n"
    assert folded("args.gpu is not None", move) is None
    assert folded("args.gpu is not None", move + "else:\n    device = torch.device('cpu')\n") is None
