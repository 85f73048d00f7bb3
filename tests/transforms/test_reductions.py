"""Where replicas reduce their gradients: once an optimizer step, before anything uses them."""

from __future__ import annotations

import pytest
from transforms.helpers import findings, migrate, run_only
from transforms.replicated import launched, spawned

from xla_transforms.settings import Settings

MODEL = (
    "net = torch.nn.Linear(4, 2).to(rank)",
    "opt = torch.optim.SGD(net.parameters(), lr=0.1)",
    "scaler = torch.cuda.amp.GradScaler()",
)
LOSS = ("opt.zero_grad()", "loss = net(x).sum()")
CLIP = "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)"


def looped(*lines: str, before: tuple[str, ...] = (), functions: str = "") -> str:
    body = [f"    {line}" for line in lines]
    return spawned(*MODEL, *before, "for x in stream:", *body, before=functions)


def reduced(code: str, *others: str, target: str = "2.9") -> str:
    return run_only(code, *others, "steps", settings=Settings(target=target))


# ---- scalers


def test_a_scaler_that_stays_gets_gradients_that_are_reduced() -> None:
    lines = ("scaler.unscale_(opt)", CLIP, "scaler.step(opt)", "scaler.update()")
    text = reduced(looped(*LOSS, "scaler.scale(loss).backward()", *lines), "grad_scaler", target="2.5")
    assert "backward()\n        xm.reduce_gradients(opt)\n        scaler.unscale_(opt)\n" in text
    assert "        scaler.step(opt)\n" in text
    assert text.count("reduce_gradients") == 1
    assert "optimizer_step" not in text


def test_a_scaler_that_stays_without_clipping() -> None:
    text = reduced(looped(*LOSS, "scaler.scale(loss).backward()", "scaler.step(opt)"), target="2.5")
    assert "        xm.reduce_gradients(opt)\n        scaler.step(opt)\n" in text


def test_a_scaler_that_is_switched_off_still_steps_by_itself() -> None:
    lines = ("scaler.scale(loss).backward()", "scaler.step(opt)", "scaler.update()", "keep(scaler)")
    text = reduced(looped(*LOSS, *lines), "grad_scaler")
    assert "        xm.reduce_gradients(opt)\n        scaler.step(opt)\n" in text


def test_a_scaler_that_goes_leaves_one_reduction_at_the_boundary() -> None:
    lines = (
        "scaler.scale(loss / 4).backward()", "if (x + 1) % 4 == 0:", "    scaler.unscale_(opt)",
        f"    {CLIP}", "    scaler.step(opt)", "    scaler.update()", "    opt.zero_grad()",
    )  # fmt: skip
    text = reduced(looped(*LOSS[1:], *lines), "grad_scaler")
    boundary = f"            xm.reduce_gradients(opt)\n            {CLIP}\n            opt.step()\n"
    assert f"(loss / 4).backward()\n        if (x + 1) % 4 == 0:\n{boundary}" in text
    assert text.count("reduce_gradients") == 1


# ---- several optimizers


def test_clipping_of_two_optimizers_parameters_at_once() -> None:
    other = ("head = torch.optim.Adam(net.parameters())",)
    text = reduced(looped(*LOSS, "loss.backward()", CLIP, "opt.step()", "head.step()", before=other))
    both = f"        xm.reduce_gradients(opt)\n        xm.reduce_gradients(head)\n        {CLIP}\n"
    assert f"{both}        opt.step()\n        head.step()\n" in text


def test_a_loop_over_optimizers_behind_clipping() -> None:
    other = ("opts = [opt, torch.optim.Adam(net.parameters())]",)
    text = reduced(looped(*LOSS, "loss.backward()", CLIP, "for o in opts:", "    o.step()", before=other))
    loop = f"        for o in opts:\n            xm.reduce_gradients(o)\n        {CLIP}\n"
    assert f"{loop}        for o in opts:\n            o.step()\n" in text


def test_clipping_above_a_step_in_the_other_way_of_a_condition() -> None:
    lines = ("loss.backward()", CLIP, "if skip(x):", "    print(x)", "else:", "    opt.step()")
    text = reduced(looped(*LOSS, *lines))
    assert f"        xm.reduce_gradients(opt)\n        {CLIP}\n" in text
    assert "            opt.step()\n" in text


# ---- across functions

STEP = "\n\ndef update(net, optimizer):\n    optimizer.step()\n    optimizer.zero_grad()\n"


def test_a_step_in_a_function_behind_its_callers_clipping() -> None:
    text = reduced(looped(*LOSS, "loss.backward()", CLIP, "update(net, opt)", functions=STEP))
    assert f"        xm.reduce_gradients(opt)\n        {CLIP}\n        update(net, opt)\n" in text
    assert "    optimizer.step()\n" in text


def test_every_caller_of_a_function_that_steps_reduces() -> None:
    lines = ("loss.backward()", CLIP, "update(net, opt)", *LOSS, "loss.backward()", "update(net, opt)")
    text = reduced(looped(*LOSS, *lines, functions=STEP))
    assert text.count("xm.reduce_gradients(opt)\n") == 2
    assert "loss.backward()\n        xm.reduce_gradients(opt)\n        update(net, opt)\n" in text
    assert "    optimizer.step()\n" in text


def test_a_function_that_steps_without_clipping_reduces_itself() -> None:
    text = reduced(looped(*LOSS, "loss.backward()", "update(net, opt)", functions=STEP))
    assert "    xm.optimizer_step(optimizer)\n" in text
    assert "reduce_gradients" not in text


CLIPPING = f"\n\ndef backward(net, loss, o):\n    loss.backward()\n    {CLIP}\n"


def test_clipping_in_a_function_that_runs_the_backward_pass() -> None:
    text = reduced(looped(*LOSS, "backward(net, loss, opt)", "opt.step()", functions=CLIPPING))
    assert f"    loss.backward()\n    xm.reduce_gradients(o)\n    {CLIP}\n" in text
    assert "        opt.step()\n" in text


def test_an_optimizer_without_a_name_there_is_an_error() -> None:
    functions = CLIPPING.replace(", o)", ")")
    code = looped(*LOSS, "backward(net, loss)", "opt.step()", functions=functions)
    assert [code for code, _ in findings(code, "steps")] == ["XLA615"]
    assert "        opt.step()\n" in reduced(code)


def test_methods_of_one_trainer() -> None:
    functions = (
        "\n\nclass Trainer:\n    def __init__(self, net, opt):\n        self.net, self.opt = net, opt\n\n"
        "    def backward(self, loss):\n        loss.backward()\n"
        "        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)\n\n"
        "    def one(self, x):\n        self.opt.zero_grad()\n        self.backward(self.net(x).sum())\n"
        "        self.opt.step()\n"
    )
    text = reduced(looped("Trainer(net, opt).one(x)", functions=functions))
    assert "        loss.backward()\n        xm.reduce_gradients(self.opt)\n        torch.nn" in text
    assert "        self.opt.step()\n" in text


SHARPNESS = """


class Sharpness(torch.optim.Optimizer):
    def __init__(self, params, base, **options):
        super().__init__(params, options)
        self.base = base(self.param_groups, **options)

    def climb(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad)
        self.zero_grad()

    def descend(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(self.state[p]["old"])
        self.base.step()
"""
WRAPPED = ("sharp = Sharpness(net.parameters(), torch.optim.SGD, lr=0.1)",)


def test_clipping_in_front_of_a_method_that_reads_gradients_and_steps() -> None:
    lines = (*LOSS, "loss.backward()", CLIP, "sharp.descend()")
    text = reduced(looped(*lines, before=WRAPPED, functions=SHARPNESS))
    assert f"        xm.reduce_gradients(sharp.base)\n        {CLIP}\n" in text
    assert text.count("reduce_gradients") == 1


def test_a_method_that_reads_gradients_and_steps_reduces_where_nothing_used_them_before() -> None:
    lines = (*LOSS, "loss.backward()", "sharp.descend()")
    text = reduced(looped(*lines, before=WRAPPED, functions=SHARPNESS))
    assert "    def descend(self):\n        xm.reduce_gradients(self.base)\n" in text


OWN = """


class Scaled(torch.optim.Optimizer):
    def __init__(self, params, rate):
        super().__init__(params, {"rate": rate})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad / p.grad.norm() * group["rate"])


class Nesting(torch.optim.Optimizer):
    def __init__(self, base):
        self.base = base
        self.param_groups = base.param_groups

    def step(self):
        self.move()

    def move(self):
        self.base.step()
"""
SCALED, NESTING = "own = Scaled(net.parameters(), 0.1)", "own = Nesting(opt)"


def own_steps(*made: str, clip: tuple[str, ...] = ()) -> str:
    return looped("loss = net(x).sum()", "loss.backward()", *clip, "own.step()", before=made, functions=OWN)


@pytest.mark.parametrize("made", [(SCALED,), ("own = opt", "if wide:", f"    {SCALED}")])
def test_an_optimizer_of_the_program_that_updates_by_itself(made: tuple[str, ...]) -> None:
    text = reduced(own_steps(*made))
    assert "        xm.optimizer_step(own)\n" in text
    assert "reduce_gradients" not in text


def test_clipping_in_front_of_an_optimizer_of_the_program() -> None:
    text = reduced(own_steps(SCALED, clip=(CLIP,)))
    assert f"        xm.reduce_gradients(own)\n        {CLIP}\n        own.step()\n" in text
    assert text.count("reduce_gradients") == 1


def test_an_optimizer_of_the_program_that_steps_another_one() -> None:
    text = reduced(own_steps(NESTING))
    assert "        xm.optimizer_step(self.base)\n" in text
    assert "        own.step()\n" in text


def test_one_that_updates_by_itself_or_one_that_steps_another_is_an_error() -> None:
    outcome = migrate(own_steps("own = opt", "if wide:", f"    {NESTING}"), "steps")
    assert [(f.code, f.severity.name) for f in outcome.findings if not f.fixed] == [("XLA614", "ERROR")]


# ---- between two backward passes


def twice(*between: str, before: tuple[str, ...] = ()) -> str:
    lines = (*LOSS, "loss.backward()", *between, "net(x).sum().backward()", "opt.step()")
    return reduced(looped(*lines, before=before, functions=SHARPNESS))


def test_gradients_that_only_accumulate_are_reduced_once() -> None:
    assert "reduce_gradients" not in twice("print(x)")


def test_gradients_of_a_batch_are_each_replicas_own() -> None:
    stream = ("stream = torch.ones(4, 4).cuda()",)
    assert "reduce_gradients" not in twice("x = x + x.grad.sign()", before=stream)


def test_gradients_read_behind_a_step_are_reduced_by_it() -> None:
    text = twice("opt.step()", "show(net.weight.grad)")
    assert "reduce_gradients" not in text


def test_an_optimizer_that_moves_weights_between_two_passes_has_its_gradients_reduced() -> None:
    text = twice("sharp.climb()", before=WRAPPED)
    assert "loss.backward()\n        xm.reduce_gradients(sharp)\n        sharp.climb()\n" in text
    assert "        xm.optimizer_step(opt)\n" in text


@pytest.mark.parametrize(
    "read", ["first = net.weight.grad.clone()", "first = [p.grad for p in net.parameters()]"]
)
def test_gradients_read_between_two_passes_are_those_of_the_optimizer_that_steps(read: str) -> None:
    assert f"loss.backward()\n        xm.reduce_gradients(opt)\n        {read}\n" in twice(read)


def test_gradients_of_two_optimizers_between_two_passes_are_an_error() -> None:
    lines = (*LOSS, "loss.backward()", "first = net.weight.grad", "net(x).sum().backward()", "opt.step()")
    code = looped(*lines, "head.step()", before=("head = torch.optim.SGD(net.parameters())",))
    assert [code for code, _ in findings(code, "steps")] == ["XLA615"]


# ---- by hand

AVERAGE = """

def average_gradients(model):
    \"\"\"Mean over all processes.\"\"\"
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size
"""
ALL = ("process_groups", "averaging", "ranks", "collectives")


def test_a_function_that_averages_by_hand_becomes_a_reduction() -> None:
    code = looped(*LOSS, "loss.backward()", "average_gradients(net)", "opt.step()", functions=AVERAGE)
    text = reduced(code, *ALL)
    assert "        loss.backward()\n        xm.reduce_gradients(opt)\n        opt.step()\n" in text
    assert "average_gradients" not in text
    assert "dist" not in text.replace("distributed", "")


def test_averaging_that_an_option_chooses_beside_a_wrapper_leaves_the_step_reduced() -> None:
    lines = (*LOSS, "loss.backward()", "if args.by_hand:", "    average_gradients(net)", "opt.step()")
    wrapped = ("if not args.by_hand:", "    net = torch.nn.parallel.DistributedDataParallel(net)")
    text = reduced(looped(*lines, functions=AVERAGE, before=wrapped), *ALL)
    assert "        xm.reduce_gradients(opt)\n        if args.by_hand:\n" in text


def test_averaging_that_an_option_chooses_without_a_wrapper_is_the_programs_own() -> None:
    lines = (*LOSS, "loss.backward()", "if args.by_hand:", "    average_gradients(net)", "opt.step()")
    text = reduced(looped(*lines, functions=AVERAGE), *ALL)
    assert "xm.reduce_gradients(opt)\n        if args.by_hand" not in text
    assert "        opt.step()\n" in text


@pytest.mark.parametrize(
    "lines",
    [
        ("dist.all_reduce(p.grad)", "p.grad /= world_size"),
        ("p.grad.div_(world_size)", "dist.all_reduce(p.grad)"),
        ("if p.grad is not None:", "    dist.all_reduce(p.grad.data)", "    p.grad.data *= 1 / world_size"),
        ("if p.grad is None: continue", "dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)"),
    ],
)
def test_a_loop_that_averages_by_hand_becomes_a_reduction(lines: tuple[str, ...]) -> None:
    average = ("for p in net.parameters():", *(f"    {line}" for line in lines))
    text = reduced(looped(*LOSS, "loss.backward()", *average, CLIP, "opt.step()"), *ALL)
    assert f"loss.backward()\n        xm.reduce_gradients(opt)\n        {CLIP}\n        opt.step()\n" in text


@pytest.mark.parametrize(
    "lines",
    [
        ("dist.all_reduce(p.grad)",),
        ("dist.all_reduce(p.grad)", "p.grad /= 2"),
        ("dist.all_reduce(p.grad)", "p.grad /= world_size", "norms.append(p.grad.norm())"),
        ("dist.all_reduce(p.grad, async_op=True)", "p.grad /= world_size"),
        ("dist.all_reduce(p.grad, group=mine)", "p.grad /= world_size"),
        ("if p.ndim == 2:", "    dist.all_reduce(p.grad)", "    p.grad /= world_size"),
    ],
)
def test_what_is_no_mean_over_all_stays_and_steps_plainly(lines: tuple[str, ...]) -> None:
    average = ("for p in net.parameters():", *(f"    {line}" for line in lines))
    text = reduced(looped(*LOSS, "loss.backward()", *average, "opt.step()"), "averaging")
    assert "dist.all_reduce(p.grad" in text
    assert "        opt.step()\n" in text
    assert "reduce_gradients" not in text


def test_an_unknown_step_is_an_error_in_replicas() -> None:
    lines = ("loss.backward()", "opt.step()", "thing.step()")
    outcome = migrate(looped(*LOSS, *lines, before=("thing = f()",)), "steps")
    assert [(f.code, f.severity.name) for f in outcome.findings if not f.fixed] == [("XLA614", "ERROR")]


COPIES = """

def hand_on(model, masters):
    for param, master in zip(model.parameters(), masters):
        {}


def norm(params):
    return sum(p.grad.norm() for p in params)
"""


@pytest.mark.parametrize(
    ("copied", "expected"),
    [
        ("master.grad = param.grad.float()", ["    hand_on(model, masters)", "    xm.reduce_gradients(opt)"]),
        ("master.grad.data.copy_(param.grad.data)",
         ["    hand_on(model, masters)", "    xm.reduce_gradients(opt)"]),
        ("param.grad.copy_(param.grad * 2)",
         ["    xm.reduce_gradients(opt)", "    hand_on(model, masters)"]),
        ("param.grad = param.grad.float()", ["    xm.reduce_gradients(opt)", "    hand_on(model, masters)"]),
        ("print(param.grad)", ["    xm.reduce_gradients(opt)", "    hand_on(model, masters)"]),
    ],
)  # fmt: skip
def test_gradients_of_master_weights_are_reduced_where_they_are(copied: str, expected: list[str]) -> None:
    lines = ("model(x).backward()", "hand_on(model, masters)", "print(norm(masters))", "opt.step()")
    made = "\n\nnet, masters, x = make()\nopt = torch.optim.SGD(masters, lr=0.1)\n"
    before = COPIES.format(copied) + made
    text = run_only(launched("model = DDP(net)", *lines, before=before), "steps")
    written = text.split("backward()\n")[1].splitlines()
    assert written[:4] == [*expected, "    print(norm(masters))", "    opt.step()"]


# ---- statements that share a line (black gives each its own, where it wrote the others)


def lines_of(text: str) -> str:
    """The statements in their order, however they share lines."""
    return "; ".join(part.strip() for line in text.splitlines() for part in line.split(";"))


def test_a_clip_and_a_step_on_one_line() -> None:
    text = reduced(looped(*LOSS, "loss.backward()", f"{CLIP}; opt.step()"))
    assert f"loss.backward(); xm.reduce_gradients(opt); {CLIP}; opt.step();" in lines_of(text)


def test_a_backward_pass_a_clip_and_a_step_on_one_line() -> None:
    text = reduced(looped(*LOSS, f"loss.backward(); {CLIP}; opt.step()"))
    assert f"loss.backward(); xm.reduce_gradients(opt); {CLIP}; opt.step();" in lines_of(text)


def test_a_loop_whose_body_stands_on_its_line() -> None:
    code = spawned(*MODEL, f"for x in stream: net(x).sum().backward(); {CLIP}; opt.step(); opt.zero_grad()")
    assert f"backward(); xm.reduce_gradients(opt); {CLIP}; opt.step();" in lines_of(reduced(code))


def test_a_step_behind_its_backward_pass_on_one_line_reduces() -> None:
    text = reduced(looped(*LOSS, "loss.backward(); opt.step()"))
    assert "loss.backward(); xm.optimizer_step(opt);" in lines_of(text)
    assert "reduce_gradients" not in text


def test_weights_moved_along_gradients_on_the_line_of_the_backward_pass() -> None:
    moved = "net.weight.data.add_(net.weight.grad)"
    text = reduced(looped(*LOSS, f"loss.backward(); {moved}", "net(x).sum().backward()", "opt.step()"))
    assert f"loss.backward(); xm.reduce_gradients(opt); {moved};" in lines_of(text)
    assert "xm.optimizer_step(opt)" in text


def test_several_optimizers_of_a_clip_that_shares_its_line_are_reported() -> None:
    lines = (f"loss.backward(); {CLIP}", "for one in [opt, opt]:", "    one.step()")
    assert [code for code, _ in findings(looped(*LOSS, *lines), "steps")] == ["XLA615"]
