"""CUDA events as timers."""

from __future__ import annotations

from transforms.helpers import check_noop, check_transformed, findings


def test_reading_the_clock_stays() -> None:
    check_noop("import time\nimport torch\n\nt = time.time()\nx = torch.zeros(1).cuda()\n", "timers")


def test_end_is_read_behind_the_scripts_own_wait() -> None:
    check_transformed(
        """\
        import torch

        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        ms = start.elapsed_time(end)
        print(f"{ms / 1000:.2f}", 1 / start.elapsed_time(end))
        """,
        """\
        import torch
        import time
        import torch_xla

        start = time.perf_counter()
        work()
        torch_xla.sync(wait=True)
        end = time.perf_counter()
        ms = (end - start) * 1000
        print(f"{ms / 1000:.2f}", 1 / ((end - start) * 1000))
        """,
        "timers",
        "cuda_utilities",
        rules={"XLA201", "XLA231"},
    )


def test_end_waits_where_the_script_waits_later_or_for_the_event() -> None:
    check_transformed(
        """\
        import time
        import torch

        class Timer:
            def __enter__(self):
                self.start = torch.cuda.Event(enable_timing=True)
                self.end = torch.cuda.Event(enable_timing=True)
                self.start.record()

            def __exit__(self, *args):
                self.end.record()
                self.end.synchronize()
                print(self.start.elapsed_time(self.end))

        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        work()
        b.record()
        more()
        print(a.elapsed_time(b))
        """,
        """\
        import time
        import torch
        import torch_xla

        class Timer:
            def __enter__(self):
                self.end = 0.0
                self.start = time.perf_counter()

            def __exit__(self, *args):
                torch_xla.sync(wait=True)
                self.end = time.perf_counter()
                print((self.end - self.start) * 1000)

        a, b = (0.0 for _ in range(2))
        a = time.perf_counter()
        work()
        torch_xla.sync(wait=True)
        b = time.perf_counter()
        more()
        print((b - a) * 1000)
        """,
        "timers",
    )


def test_event_recorded_by_another_function_is_left_and_named() -> None:
    code = """\
    import torch

    start = torch.cuda.Event(enable_timing=True)

    def begin():
        start.record()
    """
    check_noop(code, "timers")
    assert findings(code, "timers") == [("XLA233", 3)]


def test_event_handed_on_before_it_is_recorded_is_left_and_named() -> None:
    code = """\
    import torch

    start = torch.cuda.Event(enable_timing=True)
    pairs.append(start)
    start.record()
    """
    check_noop(code, "timers")
    assert findings(code, "timers") == [("XLA233", 3)]
