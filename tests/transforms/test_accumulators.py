"""Running sums of values that are read in every step."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest
from helpers import check_noop, check_transformed, findings, run_only

HEAD = """\
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

model = torch.nn.Linear(4, 3).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
feed = DataLoader(data, batch_size=8)
"""


def script(body: str) -> str:
    return HEAD + dedent(body)


def loop(lines: str, *, start: str = "total = 0.0", end: str = "print(total)") -> str:
    """A training loop with the given lines at the end of its body."""
    step = """\
        x, y = x.cuda(), y.cuda()
        out = model(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    """
    body = indent(dedent(step) + dedent(lines), "    ")
    return f"{HEAD}{start}\nfor x, y in feed:\n{body}{end}\n"


def check(before: str, after: str, *, cast: str = "total = float(total)", start: str = "total = 0.0") -> None:
    native = loop(before + "\n", start=start)
    expected = loop(after + "\n", start=start, end=f"{cast}\nprint(total)")
    check_transformed(native, expected, "accumulators")


def test_item_outside_of_loops_stays() -> None:
    check_noop(script("loss = F.mse_loss(model(x.cuda()), y.cuda())\nprint(loss.item())\n"), "accumulators")


def test_a_file_that_uses_no_gpu_stays() -> None:
    check_noop(loop("total += loss.item()\n").replace(".cuda()", ""), "accumulators")


def test_a_file_that_is_migrated_already_stays() -> None:
    check_noop("import torch_xla\n" + loop("total += loss.item()\n"), "accumulators")


def test_a_sum_of_tensors_stays() -> None:
    check_noop(loop("total += loss.detach()\n"), "accumulators")


def test_a_sum_that_decides_in_the_loop_stays() -> None:
    check_noop(loop("total += loss.item()\nif total > 9:\n    break\n"), "accumulators")


def test_a_sum_that_starts_from_something_else_than_a_number_stays() -> None:
    check_noop(loop("total += loss.item()\n", start="total = load()"), "accumulators")


def test_a_sum_whose_kind_is_not_known_stays() -> None:
    check_noop(loop("total += metric(out, y).item()\n", start="total = 0"), "accumulators")


def test_a_sum_that_another_function_reads_stays() -> None:
    start = "total = 0.0\ndef show():\n    print(total)\n"
    check_noop(loop("total += loss.item()\n", start=start), "accumulators")


def test_a_loss_is_summed_without_its_graph() -> None:
    check("total += loss.item()", "total += loss.detach()")


def test_weighted_by_the_batch() -> None:
    check("total += loss.item() * x.size(0)", "total += loss.detach() * x.size(0)")


def test_written_out() -> None:
    check("total = total + loss.item()", "total = total + loss.detach()")


def test_read_by_float() -> None:
    check("total += float(loss)", "total += loss.detach()")


def test_moved_to_the_host_first() -> None:
    check("total += loss.cpu().item()", "total += loss.detach()")


def test_a_count_stays_an_integer_and_has_no_gradient() -> None:
    before = "total += (out.argmax(1) == y).sum().item()"
    check(before, before.removesuffix(".item()"), cast="total = int(total)", start="total = 0")


def test_a_count_of_floats_is_a_float() -> None:
    before = "total += (out.argmax(1) == y).float().sum().item()"
    check(before, before.replace(".item()", ".detach()"), start="total = 0")


def test_a_loss_summed_from_an_integer_is_a_float() -> None:
    check("total += loss.item()", "total += loss.detach()", start="total = 0")


def test_a_value_that_has_a_name_first() -> None:
    check("value = loss.item()\ntotal += value", "value = loss.detach()\ntotal += value")


def test_chained_start() -> None:
    check("total += loss.item()", "total += loss.detach()", start="total = seen = 0.0")


def test_without_gradients_nothing_is_detached() -> None:
    body = """\
        def evaluate():
            total = 0.0
            with torch.no_grad():
                for x, y in feed:
                    total += F.cross_entropy(model(x.cuda()), y.cuda()).item()
            return total
    """
    after = dedent(body).replace(".item()", "")
    after = after.replace("    return", "        total = float(total)\n    return")
    check_transformed(script(body), script(after), "accumulators")


def test_in_half_precision_the_sum_is_in_float32() -> None:
    native = loop("total += loss.item()\n").replace("model(x)", "model.half()(x)")
    expected = loop("total += loss.detach().float()\n", end="total = float(total)\nprint(total)")
    check_transformed(native, expected.replace("model(x)", "model.half()(x)"), "accumulators")


def test_a_step_function_gives_back_the_tensor() -> None:
    body = """\
        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss.item()

        def train():
            total = 0.0
            for x, y in feed:
                total += step(x.cuda(), y.cuda())
            return total
    """
    after = dedent(body).replace("return loss.item()", "return loss.detach()")
    after = after.replace("    return total", "    total = float(total)\n    return total")
    check_transformed(script(body), script(after), "accumulators")


def test_a_step_function_called_elsewhere_too_stays() -> None:
    body = """\
        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss.item()

        total = 0.0
        for x, y in feed:
            total += step(x.cuda(), y.cuda())
        print(step(x.cuda(), y.cuda()))
    """
    check_noop(script(body), "accumulators")


def test_where_a_flag_may_choose_the_cpu_values_are_listed_as_tensors() -> None:
    native = loop("total.append(loss.item())\n", start="total = []").replace(
        "import torch\n", "import sys\nimport torch\n"
    )
    native = native.replace(".cuda()", ".to(device)").replace(
        "model =", 'device = torch.device("cuda" if "--gpu" in sys.argv else "cpu")\nmodel ='
    )
    code = run_only(native, "accumulators")
    assert "    total.append(loss.detach())\n" in code
    assert "\ntotal[:] = [float(v) for v in total]\nprint(total)" in code


@pytest.mark.parametrize("operator", ["+", "*"])
def test_added_to_host_numbers(operator: str) -> None:
    check(f"total += loss.item() {operator} len(x)", f"total += loss.detach() {operator} len(x)")


ON_DEVICE = "totals = torch.zeros(2).cuda()"


@pytest.mark.parametrize(
    ("line", "start"),
    [
        ("totals[0] += loss.item()", "totals = [0.0, 0.0]"),
        ("totals[0] += loss.item()", "totals = torch.zeros(2)"),
        ("totals[0] *= loss.item()", ON_DEVICE),
        ("totals[0] = loss.item()", ON_DEVICE),
        ("totals[0] += y[0].item()", ON_DEVICE),
        ("totals[0] += out.sum(1).item()", ON_DEVICE),
        ("totals[0] += F.mse_loss(out, y, reduction='none').item()", ON_DEVICE),
        ("totals[0] += F.mse_loss(out, y, **options).item()", ON_DEVICE),
        ("totals[0] += F.mse_loss(out, y, None, False).item()", ON_DEVICE),
        ("totals[0] += loss.item()", ON_DEVICE + " if many else [0.0, 0.0]"),
        ("totals[0] += loss.item() + y[0].item()", ON_DEVICE),
    ],
)
def test_what_may_have_another_shape_is_read_before_it_is_added(line: str, start: str) -> None:
    check_noop(loop(line + "\n", start=start, end="print(totals)"), "accumulators")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("loss.item()", "loss.detach()"),
        ("loss.item() * len(x)", "loss.detach() * len(x)"),
        ("float(loss)", "loss.detach()"),
        ("(loss / 2).item()", "(loss / 2).detach()"),
        ("criterion(out, y).item()", "criterion(out, y).detach()"),
        ("(out.argmax(1) == y).sum().item()", "(out.argmax(1) == y).sum()"),
        ("F.mse_loss(out, y, reduction='sum').item()", "F.mse_loss(out, y, reduction='sum').detach()"),
    ],
)
def test_a_sum_in_a_tensor_of_the_device_takes_the_tensor(value: str, expected: str) -> None:
    start = ON_DEVICE + "\ncriterion = torch.nn.CrossEntropyLoss()"
    native = loop(f"totals[0] += {value}\n", start=start, end="print(totals)")
    assert run_only(native, "accumulators") == native.replace(value, expected)
    assert "XLA701" not in [code for code, _ in findings(native, "accumulators", "host_reads")]
