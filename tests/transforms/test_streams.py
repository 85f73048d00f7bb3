"""Streams, NVTX ranges, CUDA graphs."""

from __future__ import annotations

import pytest
from transforms.helpers import check_noop, check_transformed, findings, migrate


def test_wait_of_a_thread_stays() -> None:
    code = "import torch\n\nx = torch.zeros(1).cuda()\nevent.wait()\nqueue.record_event(x)\n"
    check_noop(code, "streams")


def test_streams_and_their_order_go() -> None:
    check_transformed(
        """\
        import torch

        class Prefetcher:
            def __init__(self):
                self.stream = torch.cuda.Stream()

            def load(self, x):
                with torch.cuda.stream(self.stream):
                    # copied aside
                    self.x = x.cuda()
                torch.cuda.current_stream().wait_stream(self.stream)
                self.x.record_stream(torch.cuda.current_stream())
                return self.x
        """,
        """\
        import torch

        class Prefetcher:
            def __init__(self):
                pass

            def load(self, x):
                # copied aside
                self.x = x.cuda()
                return self.x
        """,
        "streams",
        rules={"XLA241"},
    )


def test_block_that_cannot_move_gets_a_context_that_does_nothing() -> None:
    check_transformed(
        '''\
        import torch

        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            print("""two
        lines""")
        ''',
        '''\
        import torch
        import contextlib

        with contextlib.nullcontext():
            print("""two
        lines""")
        ''',
        "streams",
    )


def test_stream_that_is_handed_on_is_none_and_named() -> None:
    code = """\
    import torch

    s = torch.cuda.Stream()
    kernel(s)
    """
    expected = """\
    import torch

    s = None
    kernel(s)
    """
    check_transformed(code, expected, "streams")
    assert findings(code, "streams") == [("XLA242", 4)]


def test_ranges() -> None:
    check_transformed(
        """\
        import torch
        from torch.cuda import nvtx

        nvtx.range_push("step")
        with nvtx.range("copy"), torch.no_grad():
            y = x.cuda()
        with torch.cuda.nvtx.range("batch {}", i):
            y = x.cuda()
        nvtx.range_pop()
        """,
        """\
        import torch
        import torch_xla.debug.profiler as xp

        with xp.Trace("copy"), torch.no_grad():
            y = x.cuda()
        with xp.Trace("batch {}".format(i)):
            y = x.cuda()
        """,
        "streams",
        rules={"XLA243"},
    )


def test_graphs_are_left_and_named() -> None:
    code = """\
    import torch

    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = model(x)
    """
    check_noop(code, "streams")
    assert findings(code, "streams", "leftovers") == [("XLA244", 3), ("XLA244", 4)]


def test_use_of_a_stream_that_is_made_beside_something_else_is_named() -> None:
    code = "import torch\n\nside, graph = torch.cuda.Stream(), made()\nrun(side.cuda_stream, graph)\n"
    assert findings(code, "streams") == [("XLA242", 4)]


def test_a_context_of_a_stream_behind_one_with_a_name_goes_alone() -> None:
    code = 'import torch\n\nwith open("a") as f, torch.cuda.stream(side):\n    print(f)\n'
    check_transformed(code, 'import torch\n\nwith open("a") as f:\n    print(f)\n', "streams")


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ("XLA241", "with torch.cuda.stream(torch.cuda.current_stream())"),
        ("XLA106", "with torch.cuda.device(0), torch.cuda.stream(None)"),
    ],
)
def test_a_with_statement_of_two_passes_stays_where_one_of_them_is_left_out(rule: str, left: str) -> None:
    items = "torch.cuda.device(0), torch.cuda.stream(torch.cuda.current_stream())"
    outcome = migrate(f"import torch\nx = torch.zeros(1).cuda()\nwith {items}:\n    y = x + 1\n")
    assert outcome.code.endswith(")\ny = x + 1\n")
    rest = outcome.without({change.id for change in outcome.changes if change.code == rule})
    assert rest.code.endswith(f"{left}:\n    y = x + 1\n")
