from __future__ import annotations

from helpers import check_noop, check_transformed, findings

HEAD = "import torch\nfrom torch.distributions import Categorical\nmodel = torch.nn.Linear(4, 2).cuda()\n"
LOOP = "while going():\n    x = model(state.cuda())\n"


def test_an_explicit_choice_stays() -> None:
    check_noop(HEAD + LOOP + "    policy = Categorical(x, validate_args=True)\n", "distributions")


def test_values_of_the_host_are_checked() -> None:
    check_noop(HEAD + LOOP + "    policy = Categorical(torch.ones(2))\n", "distributions")


def test_outside_of_loops_the_check_stays() -> None:
    check_noop(HEAD + "policy = Categorical(model(state.cuda()))\n", "distributions")


def test_a_name_of_another_package_stays() -> None:
    check_noop((HEAD + LOOP).replace("torch.dis", "ours.dis") + "    Categorical(x)\n", "distributions")


def test_a_check_that_may_be_expected_to_fail_is_reported() -> None:
    tried = "    try:\n        policy = Categorical(x)\n    except ValueError:\n        break\n"
    assert findings(HEAD + LOOP + tried, "distributions") == [("XLA704", 7)]


def test_a_choice_by_position_stays() -> None:
    check_noop(HEAD + LOOP + "    policy = Categorical(x, None, True)\n", "distributions")


def test_arguments_that_stand_elsewhere_are_reported() -> None:
    assert findings(HEAD + LOOP + "    policy = Categorical(**given)\n", "distributions") == [("XLA704", 6)]


def test_the_check_is_turned_off() -> None:
    check_transformed(
        HEAD + LOOP + "    policy = Categorical(logits=x)\n",
        HEAD + LOOP + "    policy = Categorical(logits=x, validate_args=False)\n",
        "distributions",
    )
