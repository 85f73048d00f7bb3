"""apex's mixed precision."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings, migrate, open_findings

from xla_transforms.settings import Settings

HEAD = """\
import torch
from torch import nn
{}
net = nn.Linear(4, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
crit = nn.CrossEntropyLoss()
"""
IMPORT = "from apex import amp\n"
START = 'net, opt = amp.initialize(net, opt, opt_level="O1")\n'
LOOP = """\
for x, y in feed:
    out = net(x)
    loss = crit(out, y)
    with amp.scale_loss(loss, opt) as scaled:
        scaled.backward()
    opt.step()
"""
DONE = """\
for x, y in feed:
    with torch.autocast("xla", dtype=torch.bfloat16{}):
        out = net(x)
        loss = crit(out, y)
    loss.backward()
    opt.step()
"""
PASSES = ("fused_optimizers", "apex_amp", "availability", "packages")
OPTIONS = "import argparse\nparser = argparse.ArgumentParser()\nargs = parser.parse_args()\n"


def script(start: str = START, loop: str = LOOP, head: str = IMPORT) -> str:
    return HEAD.format(head) + start + loop


def becomes(code: str, *pieces: str) -> str:
    outcome = migrate(code, *PASSES)
    text = outcome.data.decode()
    assert "apex" not in text
    assert not [f for f in open_findings(outcome) if f.severity.name == "ERROR"]
    for piece in pieces:
        assert f"\n{piece}" in text, text
    assert migrate(text, *PASSES).data.decode() == text
    return text


def left(code: str) -> str:
    """Why a script stays as it is."""
    outcome = check_noop(code, "apex_amp", "packages")
    told = {f.code: f for f in open_findings(outcome)}
    assert told.keys() <= {"XLA319", "XLA951", "XLA952"}
    return told["XLA319"].message


@pytest.mark.parametrize("head", ["from torch.cuda import amp\n", "from ours import amp\n"])
def test_a_name_of_another_package(head: str) -> None:
    check_noop(script(head=head), "apex_amp", "packages")
    assert findings(script(head=head), "apex_amp", "packages") == []


def test_weights_in_half_precision_have_no_counterpart() -> None:
    assert left(script(START.replace("O1", "O3"))).startswith("this level computes in half precision")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("net.act = amp.half_function(act)\n", "apex.amp is used in a way"),
        ("helper(amp)\n", "apex.amp is used in a way"),
        ("net = amp.initialize(net, cast_model_type=torch.float16)\n", "initialize is told what autocast"),
        ("with amp.scale_loss(a, opt) as b, other():\n    b.backward()\n", "scale_loss is not the one"),
        ("def f(a):\n    with amp.scale_loss(a, opt) as b:\n        b.backward()\n", "the forward pass is"),
    ],
)
def test_uses_that_are_not_understood(more: str, reason: str) -> None:
    assert left(script() + more).startswith(reason)


def test_a_script_that_asks_whether_apex_is_there() -> None:
    tried = "try:\n    from apex import amp\n    there = True\nexcept ImportError:\n    there = False\n"
    assert left(script(head=tried)) == "the script remembers whether apex is there"
    without = "try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n"
    assert left(script(head=without))


def test_a_condition_that_is_not_at_hand() -> None:
    start = "def setup(net, opt, options):\n    if options.half:\n"
    start += "        return amp.initialize(net, opt)\n    return net, opt\n\n\n"
    start += "net, opt = setup(net, opt, made())\n"
    assert left(script(start)) == "it is not seen when it is switched on"


def test_a_target_that_computes_in_float16_needs_the_scaled_loss() -> None:
    outcome = migrate(script(), "apex_amp", settings=Settings(target="sagemaker"))
    assert outcome.data.decode() == script()
    assert [f.code for f in open_findings(outcome)] == ["XLA319"]


@pytest.mark.parametrize("level", ["", ', opt_level="O1"', ', opt_level="O2", loss_scale=128.0'])
def test_the_forward_pass_and_the_loss_are_under_autocast(level: str) -> None:
    code = script(f"net, opt = amp.initialize(net, opt{level})\n")
    text = becomes(code, DONE.format(""))
    assert "initialize" not in text
    warned = [f.code for f in open_findings(migrate(code, *PASSES))]
    assert warned == (["XLA318"] if "O2" in level else [])


def test_full_precision_needs_no_autocast() -> None:
    plain = LOOP.replace("    with amp.scale_loss(loss, opt) as scaled:\n        scaled", "    loss")
    assert "autocast" not in becomes(script(START.replace("O1", "O0")), plain)


def test_options_that_choose_the_level() -> None:
    start = OPTIONS + "net, opt = amp.initialize(net, opt, enabled=args.half, opt_level=args.level)\n"
    becomes(script(start), DONE.format(', enabled=args.half and args.level != "O0"'))


GUARDED = """\
if args.half:
    try:
        from apex import amp
    except ImportError:
        raise ImportError("install apex")
    net, opt = amp.initialize(net, opt, opt_level=args.level)
for x, y in feed:
    loss = crit(net(x), y)
    if args.parts > 1:
        loss = loss / args.parts
    if args.half:
        with amp.scale_loss(loss, opt) as scaled:
            scaled.backward()
    else:
        loss.backward()
    if args.half:
        nn.utils.clip_grad_norm_(amp.master_params(opt), 1.0)
    else:
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
"""


def test_a_guarded_import_and_a_choice_of_two_ways() -> None:
    text = becomes(
        script(OPTIONS, GUARDED, head=""),
        'for x, y in feed:\n    with torch.autocast("xla", dtype=torch.bfloat16, '
        'enabled=args.half and args.level != "O0"):\n'
        "        loss = crit(net(x), y)\n        if args.parts > 1:\n            loss = loss / args.parts\n"
        "    loss.backward()\n    if args.half:\n"
        '        nn.utils.clip_grad_norm_([p for group in opt.param_groups for p in group["params"]], 1.0)\n'
        "    else:\n        nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n    opt.step()\n",
    )
    assert "ImportError" not in text


def test_a_guard_that_imports_and_switches_on_goes() -> None:
    start = f"{OPTIONS}if args.half:\n    {IMPORT}    {START}"
    text = becomes(script(start, head=""), DONE.format(", enabled=args.half"))
    assert "if args.half" not in text
    assert "amp" not in text.replace("torch_xla.amp", "")


def test_a_guard_that_imports_what_is_still_read_stays() -> None:
    start = f"{OPTIONS}if args.half:\n    from apex import amp, parallel\n    {START}"
    text = migrate(script(start, head="") + "parallel.use(net)\n", *PASSES).code
    assert "if args.half:\n    from apex import parallel\n" in text


def test_a_choice_whose_other_way_does_more_keeps_it() -> None:
    more = GUARDED.replace("        loss.backward()\n", "        loss.backward()\n        seen += 1\n")
    plain = "        loss.backward()\n"
    both = f"    if args.half:\n{plain}    else:\n{plain}        seen += 1\n"
    becomes(script(OPTIONS, more, head=""), both)


def test_both_ways_of_a_condition_switch_it_on() -> None:
    """Never on, where the conditions of both were joined by "and"."""
    start = OPTIONS + (
        "if args.half:\n    if args.scale == 0:\n        net, opt = amp.initialize(net, opt)\n"
        "    else:\n        net, opt = amp.initialize(net, opt, loss_scale=args.scale)\n"
    )
    becomes(script(start), DONE.format(", enabled=args.half"))
    other = start.replace("loss_scale=args.scale", 'opt_level="O0"')
    assert left(script(other)) == "it is not seen when it is switched on"


def test_what_holds_anyway_is_not_asked_again() -> None:
    start = OPTIONS + "if args.train:\n    if args.half:\n        net, opt = amp.initialize(net, opt)\n"
    loop = "if args.train:\n" + "".join(f"    {line}\n" for line in LOOP.splitlines())
    text = becomes(script(start, loop))
    assert '        with torch.autocast("xla", dtype=torch.bfloat16, enabled=args.half):\n' in text


def test_a_loss_that_is_computed_on_the_way() -> None:
    divided = LOOP.replace("scale_loss(loss,", "scale_loss(loss / 2,")
    becomes(script(loop=divided), "    (loss / 2).backward()\n")
    twice = divided.replace("backward()", "backward(retain_graph=True)\n        total += scaled")
    becomes(script(loop=twice), "    scaled = loss / 2\n    scaled.backward(retain_graph=True)\n")


def test_each_of_several_losses_has_a_forward_pass_of_its_own() -> None:
    loop = (
        "for x, y in feed:\n    real = crit(net(x), y)\n    with amp.scale_loss(real, opt, loss_id=0) as a:\n"
        "        a.backward()\n    fake = crit(net(x + 1), y)\n"
        "    with amp.scale_loss(fake, opt, loss_id=1) as b:\n        b.backward()\n    opt.step()\n"
    )
    start = "[net, other], [opt] = amp.initialize([net, other], [opt], num_losses=2)\n"
    autocast = '    with torch.autocast("xla", dtype=torch.bfloat16):\n'
    becomes(
        script("other = nn.Linear(4, 2)\n" + start, loop),
        "other = nn.Linear(4, 2)\nfor x, y in feed:\n",
        f"{autocast}        real = crit(net(x), y)\n    real.backward()\n"
        f"{autocast}        fake = crit(net(x + 1), y)\n    fake.backward()\n    opt.step()\n",
    )


def test_in_methods_of_a_trainer() -> None:
    code = HEAD.format(IMPORT) + (
        "class Trainer:\n    def __init__(self, net, opt, half):\n        self.half = half\n"
        "        self.net, self.opt = net, opt\n        if self.half:\n"
        "            self.net, self.opt = amp.initialize(self.net, self.opt)\n\n"
        "    def step(self, x, y):\n        loss = crit(self.net(x), y)\n        if self.half:\n"
        "            with amp.scale_loss(loss, self.opt) as scaled:\n                scaled.backward()\n"
        "        else:\n            loss.backward()\n        self.opt.step()\n\n\n"
        "trainer = Trainer(net, opt, True)\nfor x, y in feed:\n    trainer.step(x, y)\n"
    )
    becomes(
        code,
        '        with torch.autocast("xla", dtype=torch.bfloat16, enabled=self.half):\n'
        "            loss = crit(self.net(x), y)\n        loss.backward()\n        self.opt.step()\n",
    )


def test_the_state_of_its_scaler_goes() -> None:
    states = (
        'ckpt = torch.load("a.pt")\nif "amp" in ckpt:\n    amp.load_state_dict(ckpt["amp"])\n'
        'torch.save({"net": net.state_dict(), "amp": amp.state_dict()}, "b.pt")\n'
        'state = {}\nstate["amp"] = amp.state_dict()\nscale = amp.state_dict()\n'
    )
    saved = 'torch.save({"net": net.state_dict()}, "b.pt")\n'
    text = becomes(script() + states, f"{saved}state = {{}}\nscale = {{}}\n")
    assert "load_state_dict" not in text


def test_what_computes_nothing_stays_outside() -> None:
    cleared = LOOP.replace("    with amp", "    opt.zero_grad()\n    with amp")
    done = DONE.format("").replace("    loss.back", "    opt.zero_grad()\n    loss.back")
    becomes(script(loop=cleared), done)


def test_text_over_several_lines_is_not_moved() -> None:
    spoken = LOOP.replace("    out = net(x)\n", '    out = net(x)\n    print("""a\nb""")\n')
    becomes(script(loop=spoken), '        out = net(x)\n        print("""a\nb""")\n        loss')


def test_replicas_reduce_before_what_apex_gave_is_clipped() -> None:
    code = script(
        head=IMPORT + "import torch.distributed as dist\nfrom apex.parallel import DistributedDataParallel, "
        'convert_syncbn_model\n\ndist.init_process_group("nccl")\n',
        start=f"net = convert_syncbn_model(net)\n{START}net = DistributedDataParallel(net)\nfeed = make()\n",
        loop=LOOP.replace("    opt", "    nn.utils.clip_grad_norm_(amp.master_params(opt), 1.0)\n    opt"),
    )
    outcome = migrate(code)
    text = outcome.data.decode()
    assert "apex" not in text
    assert "DistributedDataParallel" not in text
    assert "        loss.backward()\n        xm.reduce_gradients(opt)\n        nn.utils.clip_grad_" in text
    assert "    xm.broadcast_master_param(net)\n" in text
    assert [f.code for f in outcome.findings if f.severity.name == "ERROR"] == ["XLA146"]


def test_layers_of_apex() -> None:
    code = script(
        start="from apex.normalization import FusedLayerNorm, FusedLayerNorm as Norm\n"
        "a = FusedLayerNorm(4, eps=1e-6, memory_efficient=True)\nkind = Norm\nb = Norm((4,), 1e-5)\n",
        loop="",
        head="",
    )
    text = migrate(code, "fused_layers", "packages").data.decode()
    layers = ("LayerNorm(4, eps=1e-6)", "LayerNorm", "LayerNorm((4,), 1e-5)")
    assert "a = torch.nn.{}\nkind = torch.nn.{}\nb = torch.nn.{}\n".format(*layers) in text
    assert "apex" not in text
    unknown = code.replace("memory_efficient=True", "**options")
    assert [c for c, _ in findings(unknown, "fused_layers", "packages")] == ["XLA951"]
