"""Imports: the names that wanted modules get, where their lines go, and which old ones go away."""

from __future__ import annotations

import pytest
from transforms.helpers import context_of

from xla_transforms.cleanup import unused_imports
from xla_transforms.edits import apply
from xla_transforms.findings import Rule
from xla_transforms.imports import ImportTable
from xla_transforms.plan import Site
from xla_transforms.render import Renderer
from xla_transforms.targets.base import PL, XM

RULE = Rule("XLA000", "test", "Test.", "Test.")


def table(code: str) -> ImportTable:
    return context_of(code).plan.imports


def inserted(code: str, *modules: str) -> str:
    imports = table(code)
    blank = "\n" if imports.apart() else ""
    for offset, lines in sorted(imports.placed(list(modules), len(code)).items(), reverse=True):
        code = code[:offset] + "".join(line + "\n" for line in lines) + blank + code[offset:]
    return code


def everything(code: str) -> Site:
    return Site(0, len(code), lambda render: "", 0, 0)


def cleaned(code: str, new: str) -> str:
    """What is left of ``code``'s imports when its text becomes ``new`` elsewhere."""
    index = context_of(code).index
    return apply(code, Renderer(index, unused_imports(index, new, [everything(code)])).edits())


# ---- names


def test_the_usual_aliases() -> None:
    imports = table("import torch\n")
    assert imports.name_of(XM) == "xm"
    assert imports.name_of(PL) == "pl"
    assert imports.name_of("torch_xla") == "torch_xla"
    assert imports.lines([PL, XM, "torch_xla"]) == [
        "import torch_xla",
        "import torch_xla.core.xla_model as xm",
        "import torch_xla.distributed.parallel_loader as pl",
    ]


@pytest.mark.parametrize(
    "code",
    [
        "import polars as pl\n", "import pytorch_lightning as pl\n", "def f(pl):\n    pass\n", "pl = 1\n",
        "for pl in x:\n    pass\n", "def pl():\n    pass\n", "y = [pl for pl in x]\n",
        "def f():\n    import polars as pl\n",
    ],
)  # fmt: skip
def test_an_alias_that_the_script_uses_for_something_else(code: str) -> None:
    imports = table(code)
    assert imports.name_of(PL) == "xla_pl"
    assert imports.lines([PL]) == [f"import {PL} as xla_pl"]


def test_an_import_that_is_there_is_used() -> None:
    imports = table(f"import {XM} as model\n")
    assert imports.name_of(XM) == "model"
    assert imports.lines([XM]) == []


def test_from_imports_that_are_there() -> None:
    imports = table("from torch_xla.core import xla_model\n")
    assert imports.name_of(XM) == "xla_model"
    assert imports.lines([XM]) == []


def test_an_import_under_a_condition_does_not_count() -> None:
    imports = table(f"if x:\n    import {XM} as xm\n")
    assert imports.name_of(XM) == "xla_xm"
    assert imports.lines([XM]) == [f"import {XM} as xla_xm"]


def test_a_name_is_kept_once_chosen() -> None:
    imports = table("import polars as pl\n")
    assert imports.name_of(PL) == imports.name_of(PL)


def test_items_imported_from_a_module() -> None:
    assert table("x = 1\n").lines(["torch_xla.amp.syncfree"]) == ["from torch_xla.amp import syncfree"]
    assert table("syncfree = 1\n").lines(["torch_xla.amp.syncfree"]) == [
        "from torch_xla.amp import syncfree as xla_syncfree"
    ]


# ---- where the lines go

LINE = "import torch_xla\n"


@pytest.mark.parametrize(
    "code",
    [
        "import a\n@\nx = 1\n", "import a\nfrom b import c\n@\nx = 1\n", '"""Doc."""\n\nimport a\n@\nx = 1\n',
        '"""Doc."""\nfrom __future__ import annotations\n@', "from __future__ import annotations\n@\nx = 1\n",
        "#!/usr/bin/env python\n# text\nimport a\n@x = 1\n", "import a; import b\n@x = 1\n",
        "from a import (\n    b,\n    c,\n)  # d\n@\nx = 1\n",
        "import a\n@\nsys.path.append('.')\nimport b\n",
        "import a\n\n# group\nimport b\n@\nx = 1\n",
        "import a\n@try:\n    import b\nexcept ImportError:\n    b = None\n",
    ],
)  # fmt: skip
def test_behind_the_first_block_of_imports(code: str) -> None:
    assert inserted(code.replace("@", ""), "torch_xla") == code.replace("@", LINE)


def test_behind_a_docstring_without_imports() -> None:
    assert inserted('"""Doc."""\nx = 1\n', "torch_xla") == f'"""Doc."""\n{LINE}\nx = 1\n'


def test_at_the_top_below_the_first_comments() -> None:
    assert inserted("# coding: utf-8\nx = 1\n", "torch_xla") == f"# coding: utf-8\n{LINE}\nx = 1\n"


def test_code_before_the_imports() -> None:
    code = "import os\nos.environ['A'] = '1'\nimport torch\n"
    assert inserted(code, "torch_xla").index(LINE) < code.index("import torch")


# ---- what goes away

OLD = "from torch.cuda.amp import GradScaler, autocast\n"


def test_names_that_are_still_used_stay() -> None:
    assert cleaned(OLD + "autocast(GradScaler)\n", "autocast(GradScaler)\n") == OLD + "autocast(GradScaler)\n"


def test_names_that_were_never_used_are_the_users_business() -> None:
    assert cleaned(OLD + "x = 1\n", "x = 1\n") == OLD + "x = 1\n"


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ("autocast()\n", "from torch.cuda.amp import autocast\n"),
        ("GradScaler()\n", "from torch.cuda.amp import GradScaler\n"),
        ("x = 1\n", ""),
    ],
)
def test_names_that_are_used_no_more_go(left: str, expected: str) -> None:
    use = "autocast(GradScaler)\n"
    assert cleaned(OLD + use, left) == expected + use


def test_in_several_lines_and_with_aliases() -> None:
    code = "from torch.cuda.amp import (\n    GradScaler as GS,\n    autocast,\n)\nGS(autocast)\n"
    assert cleaned(code, "autocast\n") == "from torch.cuda.amp import (\n    autocast,\n)\nGS(autocast)\n"


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ('"""Doc."""\n\nimport os\n\nimport torch\n', '"""Doc."""\n\nimport torch\n'),
        ("import os\nimport torch.distributed as dist\n\nimport torch\n", "import torch\n"),
        ("import torch\n\nimport os\n\n\nclass A:\n    pass\n", "import torch\n\n\nclass A:\n    pass\n"),
        ("import torch\n\nimport os\n# why\nimport sys\n", "import torch\n\n# why\nimport sys\n"),
        ("import torch\nimport os\n\n\nx = 1\n", "import torch\n\n\nx = 1\n"),
        ("import torch\n\nimport sys; import os\n\nx = 1\n", "import torch\n\nimport sys\n\nx = 1\n"),
        ("import torch\n\nimport os; import sys\n\nx = 1\n", "import torch\n\nimport sys\n\nx = 1\n"),
    ],
)
def test_a_block_of_which_none_stays_leaves_no_gap(before: str, behind: str) -> None:
    text = f"{before}print(os, dist, sys)\n"
    assert cleaned(text, "import torch\nimport sys\nprint(sys)\n") == text.replace(before, behind)


def test_where_something_comes_to_stand_there_is_no_gap() -> None:
    text = "import torch\n\nimport os\n\nx = os.sep\n"
    index = context_of(text).index
    removals = unused_imports(index, "import torch\nx = 1\n", [everything(text)])
    line = Site(24, 24, lambda render: "import torch_xla\n", 0, 0)
    code = Renderer(index, [line, *removals]).code()
    assert code == "import torch\n\nimport torch_xla\n\nx = os.sep\n"


def test_other_imports_stay_though_unused() -> None:
    code = "import numpy as np\nfrom torch.cuda import amp\nnp.x(amp)\n"
    assert cleaned(code, "x\n") == "import numpy as np\nnp.x(amp)\n"


def test_names_listed_for_export_stay() -> None:
    code = OLD + "__all__ = ['autocast']\nautocast(GradScaler)\n"
    assert "import autocast\n" in cleaned(code, "__all__ = ['autocast']\n")


def test_the_only_line_of_a_block() -> None:
    code = "try:\n    from torch.cuda.amp import autocast\nexcept E:\n    autocast = None\nautocast()\n"
    assert cleaned(code, "x = 1\n").startswith("try:\n    pass\nexcept E:\n")


# ---- in order


SORTED = "import os\nimport sys\n\nimport numpy as np\nimport torch\n@"
SORTED += "from torch import nn\n%from tqdm import tqdm\n"


def placed(code: str) -> str:
    """What is expected of a text in which ``@`` stands for ``import torch_xla`` and ``%`` for a ``from``."""
    lines = {"@": f"import torch_xla\nimport {XM} as xm\n", "%": "from torch_xla.amp import syncfree\n"}
    return code.replace("@", lines["@"]).replace("%", lines["%"])


@pytest.mark.parametrize(
    "code",
    [
        SORTED,
        SORTED + "\nfrom .model import Net\n",
        "import os\n\nimport torch\n@import torchvision\nimport yaml\nfrom torch import nn\n%",
        "import os\n\nimport numpy\nimport torch\nfrom torch import nn\n@%import torchvision\nimport yaml\n",
        "import os\nimport re\n\nimport torch\n@import yaml\nfrom torch import nn\n%\nx = 1\n",
        "import os\n\nimport ignite\nimport torch\n@from apex import amp\n%",
    ],
)
def test_among_sorted_imports(code: str) -> None:
    native = code.replace("@", "").replace("%", "")
    assert inserted(native, "torch_xla", XM, "torch_xla.amp.syncfree") == placed(code)


@pytest.mark.parametrize(
    "code",
    [
        "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n@%",
        "import os\nimport torch\nfrom torch import nn\nimport yaml\n@%",
        "import argparse\nimport numpy\nimport torch\nimport torchvision\n@%",
        "import os\n\nimport torch\nfrom torch import nn\nfrom apex import amp\n@%",
        "import os\n\nimport torch\nimport yaml\n@%",
    ],
)
def test_behind_imports_that_are_not_sorted_or_too_few_to_tell(code: str) -> None:
    native = code.replace("@", "").replace("%", "")
    assert inserted(native, "torch_xla", XM, "torch_xla.amp.syncfree") == placed(code)


def test_the_standard_library_has_a_block_of_its_own() -> None:
    native = "import os\nimport sys\n\nimport torch\nimport yaml\nfrom torch import nn\n"
    assert inserted(native, "time") == native.replace("sys\n", "sys\nimport time\n")
