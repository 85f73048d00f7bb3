"""Places found statement by statement are those that a print of the whole module gives."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from xla_transforms import places
from xla_transforms.scopes import ModuleIndex
from xla_transforms.source import Source
from xla_transforms.tree import walk

SHAPES = {
    "decorated": "import a\n\n\n@a.b(1)\n# why\n@c\nasync def f(x: int = 1) -> None:\n    return x\n",
    "elif": "if a:\n    b = 1\nelif c(d):\n    e = 2\nelse:\n    f = [\n        1,\n    ]\n",
    "small statements": "a = 1; b = 2\nif a: c(); d()\nfor x in y: pass\n",
    "no end of the last line": "def f():\n    a = 1\n    return (a)",
    "other letters": "s = '\u4e2d\u6587'; x = 1\nif s:\n    t = '\u00e4'; u = '\U0001f600'; v = 2\n",
    "line ends of Windows": "if a:\r\n\tb = 1\r\n\tc = '''x\r\ny'''\r\n",
    "comments": "# head\n\na = 1  # how\n\nclass A(B):\n    # why\n\n    x: int\n    # behind\n# far\n",
    "ways": "try:\n a()\nexcept E as e:\n b()\nelse:\n c()\nfinally:\n d()\nwhile a:\n pass\nelse:\n e()\n",
    "cases": "match a:\n  case [x, *_] if x:\n    b = x\n  case _:\n    with c as d, e:\n      f = d\n",
    "a form feed": "a = 1\n\f\nb = 2\n\fc = 3\n",
    "lone carriage returns": "a = 1\rif a:\r  b = 2\r",
    "continued": "a = 1 + \\\n    2\nwith (b as c,\n      d as e):\n    f = lambda: (yield)\n",
}


def _same_as_the_whole(text: str) -> int:
    """Ask for each node, as if it were the first, and compare; the number of prints of the whole module."""
    source = Source(text)
    index, expected = ModuleIndex(source), places.printed(source.module, text)
    whole = 0
    for node in walk(source.module):
        source.__dict__.pop("_places", None)
        assert source.offsets(node) == expected[id(node)], type(node)
        whole += source._places._whole
    assert index.source is source
    return whole


@pytest.mark.parametrize("name", SHAPES)
def test_each_node_stands_where_the_whole_print_has_it(name: str) -> None:
    assert _same_as_the_whole(SHAPES[name]) == 1  # for the module itself


def test_where_the_print_is_not_the_text_the_whole_module_is_mapped() -> None:
    assert _same_as_the_whole("\ufeffa = 1\nb = 2\n") > 1


def test_what_is_no_part_of_the_index_is_found_with_what_holds_it() -> None:
    source = Source("a = (b)\nc = f(d, e)\n")
    index = ModuleIndex(source)
    (name,) = (n for n in index.all(cst.Name) if isinstance(n, cst.Name) and n.value == "b")
    assert source.offsets(name) == (5, 6)
    assert source.offsets(name.lpar[0]) == (4, 5)
    assert not source._places._whole


def test_the_golden_scripts_are_not_printed_whole() -> None:
    for path in sorted(Path(__file__).parents[2].glob("golden/mnist*/native.py")):
        source = Source(path.read_text(encoding="utf-8"))
        index = ModuleIndex(source)
        expected = places.printed(source.module, source.text)
        for node in index.all(cst.Call, cst.Assign, cst.For, cst.FunctionDef):
            assert source.offsets(node) == expected[id(node)]
        assert not source._places._whole
