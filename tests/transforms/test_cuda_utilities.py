"""CUDA's waiting, housekeeping and questions."""

from __future__ import annotations

import pytest
from transforms.helpers import check_noop, check_transformed, findings, migrate


def test_a_script_without_gpu_stays() -> None:
    check_noop(
        """\
        import torch

        model = torch.nn.Linear(2, 2)
        torch.manual_seed(0)
        torch.save(model.state_dict(), "m.pt")
        """
    )


def test_wait_in_a_branch_that_cuda_never_took_stays() -> None:
    code = """\
    import torch

    x = torch.zeros(2).cuda()
    if not torch.cuda.is_available():
        torch.cuda.synchronize()
    """
    check_noop(code, "cuda_utilities")


def test_wait_becomes_a_waiting_barrier() -> None:
    check_transformed(
        """\
        import torch

        torch.cuda.synchronize()  # all done
        torch.cuda.synchronize(device=0)
        """,
        """\
        import torch
        import torch_xla

        torch_xla.sync(wait=True)  # all done
        torch_xla.sync(wait=True)
        """,
        "cuda_utilities",
        rules={"XLA201"},
    )


def test_wait_imported_by_name() -> None:
    check_transformed(
        """\
        from torch.cuda import empty_cache, synchronize

        synchronize()
        empty_cache()
        """,
        """\
        import torch_xla

        torch_xla.sync(wait=True)
        """,
        "cuda_utilities",
    )


def test_wait_before_an_iterations_work_goes_where_another_ends_it() -> None:
    check_transformed(
        """\
        import time

        import torch

        net = torch.nn.Linear(2, 2).cuda()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for i in range(3):
            torch.cuda.synchronize()
            t0 = time.time()
            net(torch.ones(1, 2).cuda()).sum().backward()
            opt.step()
            torch.cuda.synchronize()
        """,
        """\
        import time

        import torch
        import torch_xla

        net = torch.nn.Linear(2, 2).cuda()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for i in range(3):
            t0 = time.time()
            net(torch.ones(1, 2).cuda()).sum().backward()
            opt.step()
            torch_xla.sync(wait=True)
        """,
        "cuda_utilities",
    )


def test_wait_in_the_middle_of_an_iteration_is_told() -> None:
    code = """\
    import torch

    net = torch.nn.Linear(2, 2).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(3):
        net(torch.ones(1, 2).cuda()).sum().backward()
        torch.cuda.synchronize()
        opt.step()
        torch.cuda.synchronize()
    """
    assert findings(code, "cuda_utilities") == [("XLA202", 7)]


def test_housekeeping_goes_and_its_comment_stays() -> None:
    check_transformed(
        """\
        import torch

        def free():
            torch.cuda.empty_cache()  # give it back
            torch.cuda.ipc_collect()

        def reset(x): torch.cuda.reset_peak_memory_stats()
        """,
        """\
        import torch

        def free():
            pass
            # give it back

        def reset(x): pass
        """,
        "cuda_utilities",
        rules={"XLA203"},
    )


def test_guard_of_housekeeping_goes_with_it() -> None:
    check_transformed(
        """\
        import torch

        x = torch.zeros(3)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        print(x)
        """,
        """\
        import torch

        x = torch.zeros(3)
        print(x)
        """,
    )


def test_questions_about_the_gpu() -> None:
    check_transformed(
        """\
        import torch

        print(torch.cuda.get_device_name(0), torch.cuda.device_count())
        device = torch.cuda.current_device()
        first = torch.cuda.current_device() == 0
        props = torch.cuda.get_device_properties(0)
        print(f"{props.name}")
        """,
        """\
        import torch
        import torch_xla
        import torch_xla.core.xla_model as xm
        import torch_xla.runtime as xr

        print(xm.xla_device_kind(), xr.world_size())
        device = torch_xla.device()
        first = xr.local_ordinal() == 0
        print(f"{xm.xla_device_kind()}")
        """,
        "cuda_utilities",
        rules={"XLA205"},
    )


def test_properties_that_are_handed_on_stay_and_are_named() -> None:
    code = """\
    import torch

    props = torch.cuda.get_device_properties(0)
    show(props)
    """
    outcome = check_noop(code, "cuda_utilities", "leftovers")
    assert [f.code for f in outcome.findings] == ["XLA290"]


def test_capability_stands_in_and_is_told() -> None:
    outcome = check_transformed(
        """\
        import torch

        major, minor = torch.cuda.get_device_capability()
        new = torch.cuda.get_device_properties(0).major >= 8
        """,
        """\
        import torch

        major, minor = (8, 0)
        new = 8 >= 8
        """,
        "cuda_utilities",
    )
    assert [(f.code, f.fixed) for f in outcome.findings] == [("XLA206", True)] * 2


def test_memory_error_that_is_caught_is_told() -> None:
    code = """\
    import torch

    x = torch.zeros(2).cuda()
    try:
        step(x)
    except torch.cuda.OutOfMemoryError:
        pass
    """
    assert findings(code, "cuda_utilities", "leftovers") == [("XLA207", 6)]


def test_a_choice_of_the_gpu_by_its_number_goes_away() -> None:
    check_transformed(
        """\
        import torch

        dev = torch.device("cuda", args.gpu) if args.gpu is not None else torch.device("cuda")
        if args.gpu is not None:
            word = "cuda:%d" % args.gpu
        else:
            word = "cuda"
        if args.gpu is not None:
            print("one GPU")
        x = x.cuda(args.gpu)
        net.to(word).to(dev)
        """,
        """\
        import torch
        import torch_xla

        dev = torch_xla.device()
        word = torch_xla.device()
        if args.gpu is not None:
            print("one GPU")
        x = x.to(dev)
        net.to(word).to(dev)
        """,
        "device", "device_moves", "availability",
    )  # fmt: skip


@pytest.mark.parametrize(
    "shown",
    [
        "print({})", 'print("CUDA:", {}, "\\n")', 'print(f"CUDA: {{{}}}")', 'print("CUDA: %s" % {})',
        'print("%s %s" % (name, {}))', 'print("CUDA: {{}}".format({}))', 'print("CUDA: " + str({}))',
        'logging.info("CUDA: %s", {})', 'logger.info("CUDA: %s", {})',
    ],
)  # fmt: skip
def test_what_is_shown_of_cuda_stays_true(shown: str) -> None:
    code = "import logging\nimport torch\n\nlogger = logging.getLogger(name)\n"
    check_noop(code + shown.format("torch.cuda.is_available()") + "\n", "availability")


def test_a_value_that_is_worked_with_is_what_it_was_on_cuda() -> None:
    code = "import torch\n\nfound = {}\nsettings = {{'gpu': {}}}\nstart(gpu={})\n"
    native = code.format(*["torch.cuda.is_available()"] * 3)
    check_transformed(native, code.format("True", "True", "True"), "availability")


def test_whatever_is_not_understood_is_named() -> None:
    code = """\
    import torch

    wait = torch.cuda.synchronize
    torch.cuda.comm.broadcast(x, [0])
    print(torch.cuda.is_available())
    """
    assert findings(code, "cuda_utilities", "leftovers") == [("XLA290", 3), ("XLA290", 4)]


def test_what_a_written_expression_keeps_inside_is_named() -> None:
    code = """\
    import torch

    x = torch.cuda.comm.gather(parts).cuda()
    """
    assert ("XLA290", 3) in findings(code)


def test_settings_and_environment_go() -> None:
    check_transformed(
        """\
        import os

        import torch
        import torch.backends.cudnn as cudnn

        os.environ["CUDA_VISIBLE_DEVICES"] = str(args.gpu)
        os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "x")
        os.environ["OMP_NUM_THREADS"] = "1"
        cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cuda.enable_flash_sdp(False)
        torch.set_float32_matmul_precision("high")
        with torch.backends.cudnn.flags(enabled=False):
            y = model(x.cuda())
        """,
        """\
        import os

        import torch

        os.environ["OMP_NUM_THREADS"] = "1"
        torch.set_float32_matmul_precision("high")
        y = model(x.cuda())
        """,
        "cuda_settings",
        rules={"XLA204", "XLA208"},
    )


def test_setting_that_is_read_stays() -> None:
    check_noop(
        """\
        import torch

        old = torch.backends.cudnn.benchmark
        print(torch.backends.cudnn.version(), torch.version.cuda)
        """,
        "cuda_settings",
        "leftovers",
    )


def test_pinned_memory_goes() -> None:
    check_transformed(
        """\
        import torch
        from torch.utils.data import DataLoader

        a = DataLoader(ds, 4, pin_memory=True)
        b = DataLoader(
            ds,
            batch_size=4,
            pin_memory=True,  # faster copies
            pin_memory_device="cuda",
            num_workers=2,
        )
        c = DataLoader(ds, pin_memory=torch.cuda.is_available(), batch_size=2)
        d = DataLoader(ds, pin_memory=args.pin)
        x = x.pin_memory().cuda(non_blocking=True)
        """,
        """\
        import torch
        from torch.utils.data import DataLoader

        a = DataLoader(ds, 4)
        b = DataLoader(
            ds,
            batch_size=4,
            # faster copies
            num_workers=2,
        )
        c = DataLoader(ds, batch_size=2)
        d = DataLoader(ds, pin_memory=args.pin)
        x = x.cuda(non_blocking=True)
        """,
        "pinned_memory",
        rules={"XLA271"},
    )


def test_pin_memory_of_a_users_own_class_stays() -> None:
    check_noop(
        """\
        import torch

        class Batch:
            def pin_memory(self):
                return self

        batch = Batch().pin_memory()
        y = torch.zeros(2).cuda()
        """,
        "pinned_memory",
    )


def test_memory_statistics() -> None:
    limit, used = 'memory_info()["bytes_limit"]', 'memory_info()["bytes_used"]'
    rest = f"({limit} - {used}, {limit})"
    outcome = check_transformed(
        '''\
        """Docstring."""
        import torch

        MB = 2**20


        def report():
            used = torch.cuda.memory_allocated() / MB
            free, total = torch.cuda.mem_get_info()
            print(f"{torch.cuda.max_memory_allocated() / MB:.1f}", torch.cuda.memory_summary())
            return torch.cuda.get_device_properties(0).total_memory
        ''',
        '''\
        """Docstring."""
        import torch
        import torch_xla.core.xla_model as xm


        def memory_info():
            # not every device tells: a CPU does not
            try:
                return xm.get_memory_info()
            except RuntimeError:
                return {"bytes_used": 0, "bytes_limit": 0, "peak_bytes_used": 0}

        MB = 2**20


        def report():
            used = memory_info()["bytes_used"] / MB
            free, total = LIMIT_AND_REST
            print(f"{memory_info()['peak_bytes_used'] / MB:.1f}", str(memory_info()))
            return memory_info()["bytes_limit"]
        '''.replace("LIMIT_AND_REST", rest),
        "memory",
    )
    assert [(f.code, f.fixed) for f in outcome.findings] == [("XLA212", True)]


def test_memory_statistic_without_counterpart_is_named() -> None:
    code = """\
    import torch

    stats = torch.cuda.memory_stats()
    """
    assert findings(code, "memory") == [("XLA213", 3)]


def test_second_run_of_everything_is_empty() -> None:
    code = """\
    import torch

    torch.manual_seed(0)
    x = torch.zeros(3).cuda()
    torch.cuda.synchronize()
    print(torch.cuda.max_memory_allocated())
    torch.cuda.comm.broadcast(x)
    """
    first = migrate(code).data.decode()
    assert migrate(first).data.decode() == first


def test_an_attribute_or_a_keyword_of_the_same_name_is_no_use_of_cuda() -> None:
    code = """
        from torch.cuda import get_arch_list
        x = model.cuda()
        y = report.get_arch_list
        show(get_arch_list=y)
    """
    assert findings(code, "leftovers") == []
