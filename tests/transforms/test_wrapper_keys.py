"""Keys of a state_dict that begin with ``module.``."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings
from replicated import launched

SETUP = (
    "model = DDP(torch.nn.Linear(4, 1).cuda())",
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
)
SAVE = ("torch.save(model.state_dict(), 'a.pt')",)
LOAD = ("state = torch.load('b.pt')", "kept = {}", "for k in list(state):")
ASKS = (
    ("    if k.startswith('module.encoder.'):", "        state[k[15:]] = state.pop(k)"),
    ("    if k.startswith('module.'):", "        kept[k[7:]] = state[k]"),
    ("    kept['module.' + k] = state[k]",),
)


def told(*lines: str) -> list[str]:
    return [code for code, _ in findings(launched(*SETUP, *lines), "wrapper_keys")]


@pytest.mark.parametrize(
    "lines",
    [
        ("    name = k[7:] if k.startswith('module.') else k", "    kept[name] = state[k]"),
        ("    if k.startswith('module.'):", "        kept[k[7:]] = 1", "    else:", "        kept[k] = 1"),
        ("    if k.startswith('module.'):", "        state[k[7:]] = state.pop(k)"),
        ("    if k.startswith('encoder.'):", "        kept[k] = state[k]"),
        ("    kept['model.' + k] = state[k]",),
    ],
)
def test_keys_with_and_without_the_prefix_are_taken(lines: tuple[str, ...]) -> None:
    assert told(*SAVE, *LOAD, *lines) == []


@pytest.mark.parametrize("lines", ASKS)
def test_the_model_in_the_wrapper_is_saved(lines: tuple[str, ...]) -> None:
    assert told("torch.save(model.module.state_dict(), 'a.pt')", *LOAD, *lines) == []


@pytest.mark.parametrize("lines", ASKS)
def test_nothing_was_wrapped(lines: tuple[str, ...]) -> None:
    body = "\n".join((*SAVE, *LOAD, *lines))
    code = f"import torch\n\nmodel = torch.nn.Linear(4, 1).cuda()\n{body}\n"
    check_noop(code, "wrapper_keys")
    assert findings(code, "wrapper_keys") == []


@pytest.mark.parametrize("lines", ASKS)
def test_keys_that_no_checkpoint_has_any_more_are_asked_for(lines: tuple[str, ...]) -> None:
    assert told(*SAVE, *LOAD, *lines) == ["XLA124"]


def test_keys_of_data_parallel() -> None:
    made = "import torch\n\nmodel = torch.nn.DataParallel(torch.nn.Linear(4, 1)).cuda()\n"
    code = made + "\n".join((*SAVE, *LOAD, *ASKS[0])) + "\n"
    assert [found for found, _ in findings(code, "wrapper_keys")] == ["XLA124"]


ITEMS = "kept = {{{}: v for k, v in torch.load('b.pt').items()}}  # without module."
CHOSEN = ITEMS.replace("items()", "items() if k.startswith('module.')")
KEYS = ("k[7:] if k.startswith('module.') else k", "k[6:]", "k[7:9]", "k.replace('module.', '')", "name[7:]")


@pytest.mark.parametrize("key", KEYS)
def test_other_cuts_are_not_told(key: str) -> None:
    assert told(*SAVE, ITEMS.format(key)) == []


def test_names_that_lose_what_was_the_prefix_are_told() -> None:
    assert told(*SAVE, ITEMS.format("k[7:]")) == ["XLA124"]
    assert told(*SAVE, CHOSEN.format("k[7:]")) == ["XLA124"]
    assert told("torch.save(model.module.state_dict(), 'a.pt')", ITEMS.format("k[7:]")) == []


def test_names_that_a_loop_cuts_are_told() -> None:
    lines = ("kept = {}", "for k, v in torch.load('b.pt').items():", "    kept[k[7:]] = v  # without module.")
    assert told(*SAVE, *lines) == ["XLA124"]


def test_a_cut_after_another_way_failed_is_not_told() -> None:
    lines = ("try:", "    use(torch.load('b.pt'))", "except KeyError:", "    " + ITEMS.format("k[7:]"))
    assert told(*SAVE, *lines) == []
