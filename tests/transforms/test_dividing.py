"""Which files of a run are migrated together, and which need not be read."""

from __future__ import annotations

from xla_transforms.dividing import divide, speaks
from xla_transforms.encoding import decode

CUDA = "import torch\nx = torch.ones(1).cuda()\n"


def parts(**texts: str) -> tuple[list[list[str]], list[str]]:
    return divide({f"{name.replace('__', '/')}.py": text.encode() for name, text in texts.items()})


def test_files_that_say_nothing_of_gpus_need_not_be_read() -> None:
    assert parts(a="import b\n", b="x = 1\n") == ([], ["a.py", "b.py"])


def test_a_frameworks_name_counts_where_it_is_imported() -> None:
    assert not speaks(b"# transformers\nimport os  # for accelerate\nfrom igniter import a\n")
    assert not speaks(b"x = 'from lightning'\n# from transformers\n")
    assert speaks(b"import os\nfrom  transformers import a\n")
    assert speaks(b"if x:\n\timport\tpytorch_lightning as pl\n")
    assert speaks(b"import accelerate.utils\n")
    assert speaks(b"n = os.environ['SM_' + 'X_GPU_NUM_DEVICES']\n")


def test_files_without_imports_of_each_other_are_apart() -> None:
    assert parts(a=CUDA, b=CUDA, c="import d\n") == ([["a.py"], ["b.py"]], ["c.py"])


def test_imports_connect_either_way_and_through_files_without_gpus() -> None:
    found = parts(a="from p import b\n" + CUDA, p__b="from .c import f\n", p__c=CUDA, d="import p.c\n")
    assert found == ([["a.py", "p/b.py", "p/c.py", "d.py"]], [])


def test_of_several_modules_of_a_name_the_nearest_is_meant() -> None:
    found = parts(
        one__main="import model\n" + CUDA, one__model="", two__main="import model\n" + CUDA, two__model=""
    )
    assert found == ([["one/main.py", "one/model.py"], ["two/main.py", "two/model.py"]], [])


def test_a_module_and_a_package_of_one_name_stay_together() -> None:
    files = {"a.py": CUDA.encode(), "a/__init__.py": CUDA.encode()}
    assert divide(files) == ([["a.py", "a/__init__.py"]], [])


def test_bytes_that_are_no_text_belong_to_nothing() -> None:
    files = {"a.py": CUDA.encode(), "b.py": b"# coding: utf-8\nimport torch, a\n\xff.cuda()"}
    assert divide(files) == ([["a.py"], ["b.py"]], [])


def test_plain_text_is_read_as_what_its_first_lines_declare() -> None:
    assert decode(b"x = 1\n") == ("x = 1\n", "utf-8")
    assert decode(b"#\n# coding: latin-1\nx\n")[1] == "iso-8859-1"
    assert decode(b"x\n#\n# coding: latin-1\n")[1] == "utf-8"
