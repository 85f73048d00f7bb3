from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, findings

HEAD = "import torch\n\n"
AFTER = "import torch\nimport torch_xla\n\n"
FLAG = "if args.cuda:\n{0}    dtype = {1}\nelse:\n{2}    dtype = {3}\n"
BUILT = "net = torch.nn.Linear(4, 2)"
PASSES = ("type_names", "device_types")


@pytest.mark.parametrize(
    "code",
    [
        "dtype = torch.FloatTensor\nx = x.type(dtype)\n",
        "dtype = torch.float32\nx = x.type(dtype)\n",
        "def cast(x, dtype=torch.float32):\n    return x.type(dtype)\n",
    ],
)
def test_types_of_the_host_and_dtypes_stay(code: str) -> None:
    check_noop(HEAD + code + BUILT + ".cuda()\n", *PASSES)


@pytest.mark.parametrize(
    "code",
    [
        "dtype = torch.cuda.FloatTensor\nkinds = [dtype]\n",
        "dtype = given or torch.cuda.FloatTensor\nx = x.type(dtype)\n",
        "dtype = other = torch.cuda.FloatTensor\nx = x.type(dtype)\n",
        "def cast(x, dtype=torch.cuda.FloatTensor):\n    return x.type(dtype)\nwork(cast)\n",
        "def cast(x, dtype):\n    return x.type(dtype)\ncast(x, torch.cuda.FloatTensor)\ncast(x, kind())\n",
        "def new(x):\n    k = torch.cuda.HalfTensor if x.is_cuda else torch.HalfTensor\n    return k(2)\n",
        "small, large = torch.cuda.HalfTensor, torch.cuda.FloatTensor\nx = x.type(small)\n",
    ],
)
def test_a_type_that_goes_out_of_sight_is_reported(code: str) -> None:
    check_noop(HEAD + code, *PASSES)
    assert {code for code, _ in findings(HEAD + code, *PASSES)} == {"XLA194"}


def test_a_choice_beside_another_device_variable_is_reported() -> None:
    code = HEAD + FLAG.format("", "torch.cuda.FloatTensor", "", "torch.FloatTensor")
    code += "y = x.type(dtype)\ndevice = pick()\n"
    check_noop(code, *PASSES)
    assert findings(code, *PASSES) == [("XLA194", 4)]


def test_the_users_choice_of_a_type_is_one_of_a_device() -> None:
    native = FLAG.format("", "torch.cuda.FloatTensor", "", "torch.FloatTensor") + f"{BUILT}.type(dtype)\n"
    chosen = ("    device = torch_xla.device()\n", '    device = torch.device("cpu")\n')
    migrated = FLAG.format(chosen[0], "torch.float32", chosen[1], "torch.float32")
    migrated += f"{BUILT}.to(device, dtype)\n"
    check_transformed(HEAD + native, AFTER + migrated, *PASSES)


@pytest.mark.parametrize(
    ("native", "migrated"),
    [
        ("dtype = torch.cuda.FloatTensor\n{0}.type(dtype)\n",
         "dtype = torch.float32\n{0}.to(torch_xla.device(), dtype)\n"),
        ("dtype = 'torch.cuda.HalfTensor'\n{0}.type(dtype)\n",
         "dtype = torch.float16\n{0}.to(torch_xla.device(), dtype)\n"),
        ("on = torch.cuda.is_available()\n"
         "dtype = torch.cuda.LongTensor if on else torch.LongTensor\nx = x.type(dtype)\n",
         "on = torch.cuda.is_available()\ndtype = torch.int64\nx = x.to(torch_xla.device(), dtype)\n"),
        ("on = True if torch.cuda.is_available() else False\n"
         "Tensor = torch.cuda.FloatTensor if on else torch.Tensor\nx = Tensor(2, 3)\ny = y.type(Tensor)\n",
         "on = True if torch.cuda.is_available() else False\nTensor = torch.FloatTensor\n"
         "x = Tensor(2, 3).to(torch_xla.device())\ny = y.to(torch_xla.device(), torch.float32)\n"),
        ("Tensor = torch.cuda.FloatTensor\nx = Tensor(2, 3)\n",
         "Tensor = torch.FloatTensor\nx = Tensor(2, 3).to(torch_xla.device())\n"),
        ("def cast(x, dtype=torch.cuda.LongTensor):\n    return x.type(dtype)\ncast(x)\n",
         "def cast(x, dtype=torch.int64):\n    return x.to(torch_xla.device(), dtype)\ncast(x)\n"),
    ],
)  # fmt: skip
def test_names_of_types(native: str, migrated: str) -> None:
    after = AFTER + migrated.format(BUILT)
    check_transformed(HEAD + native.format(BUILT), after, *PASSES)


def test_a_type_is_followed_into_a_function() -> None:
    cast = "def cast(x, kind):\n    return x.{}\n\n\n"
    cast += "dtype = torch.{}\ny = cast(x, dtype)\nz = cast(x, torch.{})\n"
    native = cast.format("type(kind)", "cuda.FloatTensor", "cuda.LongTensor")
    migrated = cast.format("to(torch_xla.device(), kind)", "float32", "int64")
    check_transformed(HEAD + native, AFTER + migrated, *PASSES)


def test_nothing_of_a_renamed_type_is_left_over() -> None:
    code = HEAD + "dtype = torch.cuda.FloatTensor\nx = x.type(dtype)\nshow(x)\n"
    assert findings(code, *PASSES, "leftovers") == []
