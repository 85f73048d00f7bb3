from __future__ import annotations

from helpers import check_noop, findings, run_only

from xla_transforms.settings import Settings

OLDER = Settings(target="2.1")
HEAD = "import torch\nmodel = torch.nn.Linear(4, 2).cuda()\nopt = torch.optim.Adam(model.parameters())\n"
SCALER = "scaler = torch.cuda.amp.GradScaler()\n"


def test_without_a_scaler_the_state_stays() -> None:
    check_noop(HEAD + "opt.load_state_dict(saved)\n", "optimizer_states", settings=OLDER)


def test_a_target_without_a_scaler_needs_nothing() -> None:
    check_noop(HEAD + SCALER + "opt.load_state_dict(saved)\n", "optimizer_states")


def test_the_states_of_models_and_scalers_stay() -> None:
    code = HEAD + SCALER + "model.load_state_dict(saved)\nscaler.load_state_dict(saved)\n"
    check_noop(code, "optimizer_states", settings=OLDER)


def test_a_load_without_a_line_of_its_own_is_reported() -> None:
    code = HEAD + SCALER + "if saved: opt.load_state_dict(saved)\n"
    check_noop(code, "optimizer_states", settings=OLDER)
    assert findings(code, "optimizer_states", settings=OLDER) == [("XLA408", 5)]


def test_the_state_is_moved_under_a_name_of_its_own() -> None:
    code = HEAD + SCALER + "state = torch.load(path)\nopt.load_state_dict(state)\nprint(state)\n"
    result = run_only(code, "optimizer_states", settings=OLDER)
    compact = " ".join(result.split())
    assert "opt.load_state_dict(state) for optimizer_state in opt.state.values():" in compact
    assert "k: v.to(xm.xla_device()) for k, v in optimizer_state.items() if torch.is_tensor(v)" in compact
