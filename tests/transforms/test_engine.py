"""The one way through: what is filtered, what comes out, what is withdrawn. It never raises."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import SimpleNamespace

import libcst as cst
import pytest
from transforms.helpers import context_of, only

from xla_transforms import pipeline
from xla_transforms.context import Context
from xla_transforms.edits import apply
from xla_transforms.engine import migrate_bytes, migrate_program
from xla_transforms.findings import Rule
from xla_transforms.passes import WITHOUT_CUDA
from xla_transforms.program import concerns
from xla_transforms.rules import all_rules
from xla_transforms.settings import Settings

GOLDEN = Path(__file__).parents[2] / "golden"
SCRIPT = b"""\
import torch
from torch.utils.data import DataLoader

device = torch.device("cuda")
net = torch.nn.Linear(2, 2).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
feed = DataLoader(rows)
for x, y in feed:
    x, y = x.to(device), y.to(device)
    net(x).sum().backward()
    opt.step()
"""
RULE = Rule("XLA000", "test", "Test.", "Test.")


def a_pass(run: object) -> object:
    return SimpleNamespace(run=run, RULES=(RULE,))


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> object:
    """Lets a test name its own passes."""

    def use(*runs: object) -> None:
        monkeypatch.setattr(pipeline, "PASSES", tuple(a_pass(run) for run in runs))

    return use


def replace_names(old: str, new: str) -> object:
    def run(context: Context) -> None:
        for node in context.index.named(old):
            context.plan.change(RULE, node, "test").replace(node, new)

    return run


# ---- files without anything to do


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\n", b"x = 1\n", b"\xef\xbb\xbf", b"import torch\nx = torch.zeros(2)\n", b"print 'python 2'\n",
        b"import numpy\ndevice = 'cuda'\n", b"# coding: latin-1\n# caf\xe9\n", b"\x00\x00",
        b"x = 'torch cud' + 'a'",
    ],
)  # fmt: skip
def test_files_that_the_filter_keeps_out(data: bytes) -> None:
    outcome = migrate_bytes(data)
    assert outcome.data == data
    assert outcome.changes == ()
    assert outcome.findings == ()
    assert not outcome.failed


def test_a_file_without_gpu_code_is_given_back_without_its_tree() -> None:
    loaded = {name for name in sys.modules if name.startswith("libcst")}
    migrate_bytes(b"import torch\nx = torch.zeros(2)\n")
    assert {name for name in sys.modules if name.startswith("libcst")} == loaded


def test_cuda_in_comments_and_strings_changes_nothing() -> None:
    data = b'import torch\n# on cuda: x.cuda()\nprint("no device, no GPU")\nx = torch.zeros(2)\n'
    assert migrate_bytes(data).data == data


# ---- what comes out


def test_edits_give_the_code() -> None:
    outcome = migrate_bytes(SCRIPT, path="train.py")
    assert outcome.path == "train.py"
    assert outcome.data != SCRIPT
    assert outcome.data.decode() == outcome.code
    assert apply(outcome.source, outcome.edits) == outcome.code
    assert all(a.end <= b.start for a, b in zip(outcome.edits, outcome.edits[1:], strict=False))


def test_changes_name_their_rule_and_places() -> None:
    known = {rule.code: rule.name for rule in all_rules()}
    outcome = migrate_bytes(SCRIPT)
    assert outcome.changes
    for change in outcome.changes:
        assert known[change.code] == change.name
        assert change.message
        assert change.spans
        assert all(0 <= span.start <= span.end <= len(outcome.source) for span in change.spans)
    assert len({change.id for change in outcome.changes}) == len(outcome.changes)


def test_findings_come_in_source_order() -> None:
    code = SCRIPT + b"for x, y in rows:\n    net(x).sum().backward()\n    a.step()\n    b.step()\n"
    spans = [finding.span for finding in migrate_bytes(code).findings]
    assert spans == sorted(spans)
    assert len(spans) >= 2


def test_a_second_run_changes_nothing() -> None:
    once = migrate_bytes(SCRIPT).data
    again = migrate_bytes(once)
    assert again.data == once
    assert again.changes == ()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1", "cp1252"])
def test_the_encoding_is_kept(encoding: str) -> None:
    head = "" if encoding == "utf-8-sig" else f"# coding: {encoding}\n"
    text = head + "# caf\u00e9\n" + SCRIPT.decode()
    data = migrate_bytes(text.encode(encoding)).data
    assert data != text.encode(encoding)
    assert "# caf\u00e9\n" in data.decode(encoding)
    assert data.startswith(b"\xef\xbb\xbf") is (encoding == "utf-8-sig")


def test_line_endings_are_kept() -> None:
    data = migrate_bytes(SCRIPT.replace(b"\n", b"\r\n")).data
    assert data == migrate_bytes(SCRIPT).data.replace(b"\n", b"\r\n")


def test_form_feeds_are_kept() -> None:
    data = SCRIPT.replace(b"\nfor x", b"\n\f\nfor x")
    out = migrate_bytes(data).data
    assert out != data
    assert out.count(b"\f") == 1
    assert b"\n\f\nfor x" in out


# ---- bad input


@pytest.mark.parametrize(
    ("data", "code", "line"),
    [
        (b"import torch\nx = torch.zeros(2).cuda(\ny = 1\n", "XLA001", 2),
        (b"import torch\nprint 'cuda'\nraise E, 'x'\n", "XLA001", 2),
        (b"import torch.cuda\ndef f(:\n    pass\n", "XLA001", 2),
        (b"import torch\nprint 'cuda'\n", "XLA001", 2),
        (b"# torch cuda\nx = '\xff'\n", "XLA002", 2),
        (b"# coding: martian\n# torch cuda\n", "XLA002", 1),
        (b"import torch\nx = '\x00cuda\n", "XLA001", 2),
    ],
)
def test_what_cannot_be_read_comes_back_with_a_place(data: bytes, code: str, line: int) -> None:
    outcome = migrate_bytes(data)
    assert outcome.failed
    assert outcome.data == data
    assert outcome.edits == ()
    assert [(f.code, f.span.line) for f in outcome.findings] == [(code, line)]


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "a." * 400 + "cuda()\n", "x = " + "-" * 3000 + "1\n", "x = " + "f(" * 90 + ")" * 90 + "\n",
        "".join("    " * i + f"if a{i}:\n" for i in range(90)) + "    " * 90 + "x.cuda()\n",
        "x = " + " + ".join(["a"] * 400) + "\n", "x = [" + "1, " * 2000 + "]\n",
    ],
)  # fmt: skip
def test_deep_nesting_never_raises(text: str) -> None:
    data = ("import torch\ndevice = torch.device('cuda')\n" + text).encode()
    outcome = migrate_bytes(data)
    assert not outcome.failed or outcome.findings
    assert not outcome.failed or outcome.data == data


def test_one_bad_file_does_not_stop_the_others() -> None:
    outcomes = migrate_program({"bad.py": b"torch.cuda(\n", "good.py": SCRIPT, "empty.py": b""})
    assert list(outcomes) == ["bad.py", "good.py", "empty.py"]
    assert outcomes["bad.py"].failed
    assert outcomes["good.py"].changes
    assert not outcomes["empty.py"].failed


# ---- several files


def test_a_program_of_several_files() -> None:
    files = {
        "pkg/__init__.py": b"",
        "pkg/data.py": b"import torch\nfrom torch.utils.data import DataLoader\n\n\ndef feed():\n"
        b"    # torch device\n    return DataLoader(rows)\n",
        "pkg/engine.py": b"import torch\n\n\ndef fit(net, opt, feed):\n    for x, y in feed:\n"
        b"        net(x.cuda()).sum().backward()\n        opt.step()\n",
        "train.py": b"import torch\nfrom pkg.data import feed\nfrom pkg import engine\n\n"
        b'net = torch.nn.Linear(2, 2).to("cuda")\nopt = torch.optim.SGD(net.parameters(), lr=1)\n'
        b"engine.fit(net, opt, feed())\n",
    }
    with only("loaders", "transfers", "steps", "barrier"):
        outcomes = migrate_program(files)
    assert outcomes["pkg/__init__.py"].data == b""
    engine = outcomes["pkg/engine.py"].data.decode()
    assert "xm.optimizer_step(opt)" in engine
    assert ("MpDeviceLoader" in engine) != ("torch_xla.sync()" in engine)
    again = migrate_program({path: outcome.data for path, outcome in outcomes.items()})
    assert {path: o.data for path, o in again.items()}["pkg/engine.py"] == outcomes["pkg/engine.py"].data


NO_CUDA = b"""\
import torch
device = torch.device('cpu')
for x, y in feed:
    net(x.to(device)).sum().backward()
"""


def test_a_program_that_names_no_cuda_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "Source", lambda text, path: pytest.fail(path))
    outcomes = migrate_program({"train.py": b"import data\n" + NO_CUDA, "data.py": NO_CUDA})
    assert all(o.data == o.original and not o.findings for o in outcomes.values())


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was_after_a_run(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    try:
        migrate_bytes(SCRIPT)
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_a_file_without_cuda_is_part_of_the_program_that_uses_it() -> None:
    helper = b"# device of torch\ndef move(x):\n    return x\n"
    files = {"train.py": b"import helper\n" + SCRIPT, "helper.py": helper}
    outcomes = migrate_program(files)
    assert outcomes["train.py"].changes
    assert outcomes["helper.py"].data == helper


def test_what_is_no_python_is_reported_also_where_it_names_no_cuda() -> None:
    outcome = migrate_bytes(NO_CUDA + b"print 'python 2'\n")
    assert [(f.code, f.span.line) for f in outcome.findings] == [("XLA001", 5)]


@pytest.mark.parametrize(
    "line",
    [
        "x.cuda()", "x.is_cuda", "torch.accelerator.current_accelerator()", "d = 'cuda'", 'd = f"cuda:{i}"',
        "d = r'cuda:0'", "from torch import cuda", "import torch.cuda as c", "s = 'torch.cuda.FloatTensor'",
        "from torch . cuda import amp", "x.to(0)", "x.to( device = 0)", "gpu = 0\nx.to(gpu)",
        "import torch as t\nx = t.ones(2, device=0)", "from torch import device\nd = device(0)",
        "import torch\nx = torch.device(0)", "def f(x, device_id=1):\n    x.to(device_id)",
    ],
)  # fmt: skip
def test_the_look_at_the_text_misses_no_use_of_cuda(line: str) -> None:
    assert context_of(line).uses_cuda
    assert concerns(line)


@pytest.mark.parametrize(
    "line",
    [
        "import torch\nimport sounddevice\nsounddevice.rec(device=0)", "import torch\ntorch.zeros(0)",
        "x.to(dtype, 0)", "gpu = 0\nx.to(cpu)", "import av\nd = av.device(0)",
        "from torch import device\ndevice(d)",
    ],
)  # fmt: skip
def test_numbers_that_are_no_device_of_torch_are_no_use_of_cuda(line: str) -> None:
    assert not context_of(line).uses_cuda


def test_a_script_that_gives_its_device_by_number_alone_is_migrated() -> None:
    for line in ("net = net.to(0)", "net = net.to(device=0)"):
        after = migrate_bytes(b"import torch\n\nnet = torch.nn.Linear(2, 2)\n" + line.encode() + b"\n")
        assert b"torch_xla.device()" in after.data


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/native.py")), ids=lambda p: p.parent.name)
def test_no_pass_has_anything_to_do_where_nothing_names_cuda(path: Path) -> None:
    text = path.read_text(encoding="utf-8-sig").replace("cuda", "cpu").replace("accelerator", "cpu")
    text = text.replace("nccl", "gloo")
    context = context_of(text)
    assert not context.uses_cuda
    for step in pipeline.PASSES:
        if not (concerns(text) and step in WITHOUT_CUDA):
            step.run(context)
    assert not context.plan.planned
    assert not context.plan.findings


def test_two_paths_that_give_one_module_name() -> None:
    outcomes = migrate_program({"a.py": SCRIPT, "a/__init__.py": SCRIPT, "./a.py": SCRIPT, "../a.py": SCRIPT})
    assert len(outcomes) == 4
    assert len({o.data for o in outcomes.values()}) == 1
    assert all(o.changes for o in outcomes.values())


# ---- some of the changes only


def test_narrowing_to_nothing_and_to_all() -> None:
    outcome = migrate_bytes(SCRIPT)
    assert outcome.narrow([]).data == SCRIPT
    assert outcome.narrow([c.id for c in outcome.changes]).data == outcome.data


def test_imports_follow_the_chosen_changes() -> None:
    with only("loaders", "transfers", "steps", "barrier"):
        outcome = migrate_bytes(SCRIPT)
    step = next(c.id for c in outcome.changes if c.code == "XLA611")
    narrowed = outcome.narrow([step])
    assert [c.id for c in narrowed.changes] == [step]
    assert "import torch_xla.core.xla_model as xm\n" in narrowed.code
    assert "parallel_loader" not in narrowed.code
    assert "xm.optimizer_step(opt)" in narrowed.code
    assert "x, y = x.to(device), y.to(device)" in narrowed.code


def test_narrowing_twice() -> None:
    outcome = migrate_bytes(SCRIPT)
    ids = [c.id for c in outcome.changes]
    assert outcome.narrow(ids[:1]).narrow(ids).data == outcome.data


def test_a_fault_of_the_tool_leaves_the_file_alone(passes) -> None:  # type: ignore[no-untyped-def]
    def run(context: Context) -> None:
        raise AssertionError("a bug")

    passes(run)
    outcome = migrate_bytes(SCRIPT)
    assert outcome.failed
    assert outcome.data == SCRIPT
    assert "a bug" in outcome.findings[0].message


# ---- what is not sound is withdrawn


def test_a_result_that_does_not_compile(passes) -> None:  # type: ignore[no-untyped-def]
    passes(replace_names("opt", "1 +"))
    outcome = migrate_bytes(SCRIPT)
    assert outcome.data == SCRIPT
    assert outcome.changes == ()
    assert [f.code for f in outcome.findings] == ["XLA004"]


def test_a_result_with_a_name_that_nothing_binds(passes) -> None:  # type: ignore[no-untyped-def]
    def run(context: Context) -> None:
        use = context.index.named("opt")[-1]
        context.plan.change(RULE, use, "test").replace(use, "nowhere")

    passes(run)
    outcome = migrate_bytes(SCRIPT)
    assert outcome.data == SCRIPT
    assert [f.code for f in outcome.findings] == ["XLA004"]


def test_names_that_were_unbound_before_do_not_matter(passes) -> None:  # type: ignore[no-untyped-def]
    passes(replace_names("opt", "rows"))
    assert migrate_bytes(SCRIPT).changes


FILES = {
    "train.py": b"from engine import fit\nimport torch\nopt = torch.device('cuda')\nfit(opt)\n",
    "engine.py": b"import torch\ndef fit(opt):\n    torch.ones(1).to(opt).cuda()\n",
    "other.py": b"import torch\nopt = torch.device('cuda')\nprint(opt)\n",
}


def _spoils(name: str):  # type: ignore[no-untyped-def]
    def run(context: Context) -> None:
        use = context.index.named("opt")[-1]
        text = "1 +" if context.index.source.path == name else "(opt)"
        context.plan.change(RULE, use, "test").replace(use, text)

    return run


def test_what_belongs_with_the_changes_of_another_file_is_withdrawn_with_them(passes) -> None:  # type: ignore[no-untyped-def]
    passes(_spoils("engine.py"))
    outcomes = migrate_program(FILES)
    assert {path: outcome.data == FILES[path] for path, outcome in outcomes.items()} == {
        "train.py": True,
        "engine.py": True,
        "other.py": False,
    }
    assert [f.code for f in outcomes["train.py"].findings] == ["XLA004"]
    assert "they belong with those of engine.py" in outcomes["train.py"].findings[0].message


def test_a_file_that_the_tool_fails_on_leaves_its_program_as_it_was(passes) -> None:  # type: ignore[no-untyped-def]
    def run(context: Context) -> None:
        if context.index.source.path == "train.py":
            raise ValueError("a bug")
        _spoils("")(context)

    passes(run)
    outcomes = migrate_program(FILES)
    assert outcomes["train.py"].failed
    assert outcomes["engine.py"].data == FILES["engine.py"]
    assert outcomes["other.py"].data != FILES["other.py"]


def test_overlapping_changes(passes) -> None:  # type: ignore[no-untyped-def]
    def run(context: Context) -> None:
        first, second, third = context.index.source.module.body[-3:]
        for pair in ((first, second), (second, third)):
            change = context.plan.change(RULE, pair[0], "test")
            change.replace_statements(*pair, lambda render: "pass\n")

    passes(run)
    outcome = migrate_bytes(SCRIPT)
    assert outcome.data == SCRIPT
    assert [f.code for f in outcome.findings] == ["XLA004"]


def test_a_pass_that_reports_only(passes) -> None:  # type: ignore[no-untyped-def]
    def run(context: Context) -> None:
        for call in context.index.all(cst.Call):
            context.plan.report(RULE, call, "seen", "look")
            context.plan.report(RULE, call, "seen", "look")

    passes(run)
    outcome = migrate_bytes(SCRIPT)
    assert outcome.data == SCRIPT
    assert len(outcome.findings) == len({f.span for f in outcome.findings}) > 3


def test_without_black_new_text_is_left_as_written(passes) -> None:  # type: ignore[no-untyped-def]
    passes(replace_names("rows", "print( 1,2 )"))
    assert b"DataLoader(print( 1,2 ))" in migrate_bytes(SCRIPT, Settings(black=None)).data
