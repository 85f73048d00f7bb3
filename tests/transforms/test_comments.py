"""Comments of what goes: they stay above the statement that held them; pragmas go with their line."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, run_only
from soundness import lost_comments

from xla_transforms.comments import comments, is_pragma, lost

HEAD = "import torch\n\n"
DEVICE = "import torch\nimport torch_xla\n\n"


# ---- what must not change


def test_comments_of_what_stays_are_not_touched() -> None:
    check_noop("import torch\n# cuda\nif a:  # why\n    # b\n    b()\n    # end of block\n# behind\n")


def test_a_comment_that_is_kept_is_not_said_twice() -> None:
    check_transformed(
        HEAD + "# a\nx = f(  # one\n    torch.zeros(1).cuda(),  # two\n)  # three\n",
        DEVICE + "# a\nx = f(  # one\n    torch.zeros(1).to(torch_xla.device()),  # two\n)  # three\n",
    )


# ---- branches


def test_the_way_not_taken_leaves_its_comments_above() -> None:
    check_transformed(
        HEAD + """\
# which device
if torch.cuda.is_available():  # it is
    # much faster
    device = torch.device("cuda")  # the first
else:  # it is not
    # slow
    device = torch.device("cpu")  # the host
    # end
model = net(device)
""",
        DEVICE + """\
# which device
# it is not
# slow
# the host
# end
# it is
# much faster
device = torch_xla.device()  # the first
model = net(device)
""",
    )


def test_a_comment_of_an_inner_branch_stays_at_its_depth() -> None:
    check_transformed(
        HEAD + """\
def f(x):
    if torch.cuda.is_available():
        for i in x:
            # a step
            if not torch.cuda.is_available():
                # slow
                i.step()
            i += 1
    return x
""",
        HEAD + """\
def f(x):
    for i in x:
        # a step
        # slow
        i += 1
    return x
""",
        "availability",
    )


def test_a_way_among_others_leaves_its_comments_above_the_whole() -> None:
    check_transformed(
        HEAD + """\
if a:
    b()
elif not torch.cuda.is_available():
    # slow
    c()
    # really
else:
    d()
""",
        HEAD + """\
# slow
# really
if a:
    b()
else:
    d()
""",
    )


def test_the_comments_that_end_a_block_go_with_it_to_the_left() -> None:
    check_transformed(
        HEAD + "with torch.cuda.device(0):\n    a()\n    # commented = code\n\n    # end\n\nb()\n",
        HEAD + "a()\n# commented = code\n\n# end\n\nb()\n",
    )


def test_nested_comments_that_end_blocks() -> None:
    check_transformed(
        HEAD + "if torch.cuda.is_available():\n    if a:\n        b()\n        # inner\n    # outer\nc()\n",
        HEAD + "if a:\n    b()\n    # inner\n# outer\nc()\n",
    )


def test_what_comes_behind_a_block_comes_behind_its_last_comments() -> None:
    check_transformed(
        HEAD + """\
device = torch.device("cuda")
for x in xs:
    loss = model(x.to(device)).sum()
    loss.backward()
    optimizer.step()
    # scheduler.step()
print(1)
""",
        DEVICE + """\
device = torch_xla.device()
for x in xs:
    loss = model(x.to(device)).sum()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    # scheduler.step()
print(1)
""",
    )  # fmt: skip


def test_a_guard_of_nothing_leaves_all_its_comments() -> None:
    check_transformed(
        HEAD + "if verbose:  # at times\n    # tidy\n    torch.cuda.empty_cache()  # free\n    # done\nb()\n",
        HEAD + "# at times\n# tidy\n# free\n# done\nb()\n",
    )


# ---- statements and expressions


def test_a_removed_statement_leaves_its_comment_as_a_line() -> None:
    check_transformed(HEAD + "torch.cuda.empty_cache()  # free memory\na()\n", HEAD + "# free memory\na()\n")


def test_a_block_of_which_only_comments_are_left_is_no_empty_block() -> None:
    check_transformed(
        HEAD + "def tidy():\n    # all of it\n    torch.cuda.empty_cache()  # free\n",
        HEAD + "def tidy():\n    # all of it\n    pass\n    # free\n",
    )


def test_a_replaced_expression_leaves_its_comments_above_its_statement() -> None:
    check_transformed(
        HEAD + """\
x = f(
    torch.device(
        "cuda"  # with
        if torch.cuda.is_available()
        else "cpu"  # without
    ),  # the device
)
""",
        DEVICE + """\
# with
# without
x = f(
    torch_xla.device(),  # the device
)
""",
    )


def test_a_removed_decorator_leaves_its_comment_above_the_function() -> None:
    check_transformed(
        HEAD + "x = torch.zeros(1).cuda()\n\n\n@torch.compile  # fast\n@other\ndef f():\n    pass\n",
        DEVICE + "x = torch.zeros(1).to(torch_xla.device())\n\n\n@other\n# fast\ndef f():\n    pass\n",
    )


def test_a_removed_import_leaves_its_comment() -> None:
    check_transformed(
        HEAD + "from torch.cuda.amp import GradScaler  # half\n\nscaler = GradScaler()\n",
        HEAD + "# half\n",
    )


def test_tabs_and_carriage_returns() -> None:
    code = "import torch\r\nif a:"
    code += "\r\n\tif torch.cuda.is_available():\r\n\t\tb()\r\n\telse:\r\n\t\tc()  # slow\r\n"
    check_transformed(code, "import torch\r\nif a:\r\n\t# slow\r\n\tb()\r\n")


# ---- pragmas


def test_what_is_said_to_a_tool_goes_with_its_line() -> None:
    check_transformed(
        HEAD + "torch.cuda.empty_cache()  # type: ignore[attr]\ntorch.cuda.empty_cache()  # noqa\na()\n",
        HEAD + "a()\n",
    )


def test_what_is_said_to_a_tool_stays_with_a_line_that_stays() -> None:
    check_transformed(
        HEAD + "x = torch.zeros(1).cuda()  # noqa: E501\n",
        DEVICE + "x = torch.zeros(1).to(torch_xla.device())  # noqa: E501\n",
    )


def test_which_comments_are_pragmas() -> None:
    for comment in ("# noqa", "#noqa: E1", "# type: ignore", "# pylint: x", "# fmt: skip", "# pragma: x"):
        assert is_pragma(comment)
    for comment in ("# types of x", "# see noqa", "# pragma", "# format: x", "#!bang"):
        assert not is_pragma(comment)


# ---- the words themselves


def test_comments_of_a_piece_of_text() -> None:
    assert comments("a  # one \n'# no' + \"\"\"\n# no\"\"\" # two\r\n") == [(3, "# one"), (31, "# two")]
    assert lost(["# a", "# b", "# a", "# noqa"], "# a\nx\n") == ["# b", "# a"]


def test_a_pragma_counts_as_lost_where_its_line_is_still_there() -> None:
    assert lost_comments("a()  # noqa\nb()\n", "a()\nb()\n") == ["# noqa"]
    assert lost_comments("a()  # noqa\nb()  # why\n", "") == ["# why"]


# ---- blank lines


GONE = "    torch.cuda.empty_cache()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"    a()\n\n{GONE}\n    b()\n", "    a()\n\n    b()\n"),
        (f"    a()\n\n{GONE}    b()\n", "    a()\n\n    b()\n"),
        (f"    a()\n{GONE}\n    b()\n", "    a()\n\n    b()\n"),
        (f"    a()\n{GONE}    b()\n", "    a()\n    b()\n"),
        (f"    a()\n\n{GONE}\n{GONE}\n\n    b()\n", "    a()\n\n\n    b()\n"),
        (f"    a()\n\n    # why\n{GONE}\n    b()\n", "    a()\n\n    # why\n\n    b()\n"),
        (f"{GONE}\n    b()\n", "    b()\n"),
        (f"    a()\n\n{GONE}", "    a()\n"),
        (f"    a()\n\n{GONE}\n    x.cuda()\n", "    a()\n\n    x.cuda()\n"),
    ],
)
def test_the_blank_lines_around_what_goes_become_one_run(before: str, after: str) -> None:
    head = f"{HEAD}\n\ndef f(x):\n"
    assert run_only(head + before, "cuda_utilities") == head + after


def test_comments_of_the_last_ways_of_a_choice_stay_at_its_end() -> None:
    before = """\
if many:
    model = wrap(model)
elif torch.cuda.is_available():
    model = model.cuda()
else:
    # neither
    model = model.cpu()
    # really
run(model)
"""
    after = """\
if many:
    model = wrap(model)
else:
    model = model.cuda()
    # neither
    # really
run(model)
"""
    assert run_only(HEAD + before, "availability") == HEAD + after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a, {},\n  b=1, c=2)\n", "f(a,\n  b=1, c=2)\n"),
        ("f(a, {},  # fast\n  b=1, c=2)\n", "f(a,  # fast\n  b=1, c=2)\n"),
        ("f(a, {}, b=1,\n  c=2)\n", "f(a, b=1,\n  c=2)\n"),
        ("f(a,\n  {},\n  b=1, c=2)\n", "f(a,\n  b=1, c=2)\n"),
        ("f(a,\n  {}, b=1, c=2)\n", "f(a,\n  b=1, c=2)\n"),
        ("f(a, b=1, {})\n", "f(a, b=1)\n"),
        ("f(a, b=1,\n  {})\n", "f(a, b=1)\n"),
        ("f({},\n  b=1)\n", "f(b=1)\n"),
    ],
)
def test_an_argument_that_goes_leaves_the_other_lines_as_they_are(before: str, after: str) -> None:
    head = "import torch\nfrom torch.utils.data import DataLoader as f\n\nx.cuda()\n"
    code = run_only(head + before.format("pin_memory=True"), "pinned_memory")
    assert code == head + after
