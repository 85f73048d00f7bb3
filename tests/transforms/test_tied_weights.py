"""Weights that a model ties, and the move that takes the tie apart."""

from __future__ import annotations

from helpers import check_noop, check_transformed, findings, migrate

PASSES = ("device", "device_moves", "tied_weights")
SWITCH = "torch.__future__.set_swap_module_params_on_conversion"


def model(tie: str, *, method: str = "pass", signature: str = "self") -> str:
    return f"""import torch
from torch import nn


class Lm(nn.Module):
    def __init__({signature}):
        super().__init__()
        self.emb = nn.Embedding(9, 4)
        self.out = nn.Linear(4, 9, bias=False)
        {tie}

    def tie_weights(self):
        {method}


"""


TIE = "self.out.weight = self.emb.weight"
MOVED = """device = torch.device("cuda")
net = Lm().to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def after_move(code: str) -> str:
    text = migrate(code, *PASSES).data.decode()
    return text.split(".to(device)\n")[1].split("\n")[0]


def test_a_model_without_ties_stays() -> None:
    check_noop(model("self.tied = self.emb.weight") + MOVED, "tied_weights")


def test_a_tie_that_never_happens_stays() -> None:
    code = model(f"if tied:\n            {TIE}", signature="self, tied=False") + MOVED
    check_noop(code, "tied_weights")


def test_the_tie_is_made_again_before_the_optimizer() -> None:
    check_transformed(
        model(TIE) + MOVED,
        model(TIE).replace("from torch import nn\n", "import torch_xla\nfrom torch import nn\n")
        .replace("import torch_xla\nfrom torch import nn", "from torch import nn\nimport torch_xla")
        + MOVED.replace('torch.device("cuda")', "torch_xla.device()").replace(
            "opt =", "net.out.weight = net.emb.weight\nopt ="
        ),
        *PASSES,
    )  # fmt: skip


def test_the_models_own_method_ties() -> None:
    assert after_move(model("self.tie_weights()", method=TIE) + MOVED) == "net.tie_weights()"


def test_a_default_that_nobody_overrides_counts() -> None:
    code = model(f"if tied:\n            {TIE}", signature="self, tied=True") + MOVED
    assert after_move(code) == "net.out.weight = net.emb.weight"


def test_a_condition_from_outside_keeps_the_parameters_identity() -> None:
    moved = MOVED.replace("Lm()", "Lm(args.tied)")
    code = model(f"if tied:\n            {TIE}", signature="self, tied") + moved
    outcome = migrate(code, *PASSES)
    assert f"{SWITCH}(True)\nnet = Lm(args.tied).to(device)\n{SWITCH}(False)\n" in outcome.data.decode()
    (finding,) = outcome.findings
    assert finding.code == "XLA422"
    assert "out.weight and emb.weight" in finding.message


def test_a_model_that_is_moved_elsewhere_is_told() -> None:
    assert findings(model(TIE) + 'device = "cuda"\n', "tied_weights") == [("XLA423", 10)]


def test_a_weight_that_a_part_is_handed_is_told() -> None:
    handed = model("self.out.weight = shared", signature="self, shared") + 'device = "cuda"\n'
    assert findings(handed, "tied_weights") == [("XLA423", 10)]


def test_a_weight_that_is_made_anew_or_copied_is_not_shared() -> None:
    made = model("self.out.weight = nn.Parameter(shared)", signature="self, shared") + MOVED
    copied = model("self.out.weight.data = shared", signature="self, shared") + MOVED
    check_noop(made, "tied_weights")
    check_noop(copied, "tied_weights")
    assert findings(made, "tied_weights") == findings(copied, "tied_weights") == []


def test_a_pretrained_model_ties_itself() -> None:
    code = """\
        import torch
        from transformers import AutoModelForMaskedLM

        device = torch.device("cuda")
        net = AutoModelForMaskedLM.from_pretrained("x").to(device)
        """
    assert after_move(code) == "net.tie_weights()"


def test_a_script_that_ties_again_by_itself_stays() -> None:
    placed = "def place(device):\n    net = Lm()\n    net.cuda()\n    net.out.weight = net.emb.weight\n"
    check_noop(model(TIE) + placed, "tied_weights")
    loaded = """\
        import torch
        from transformers import AutoModel

        class Features(torch.nn.Module):
            def __init__(self, device):
                super().__init__()
                self.model = AutoModel.from_pretrained("x")
                self.model.to(device)
                self.model.eval()
                self.model.tie_weights()

        features = Features("cuda")
        """
    check_noop(loaded, "tied_weights")


def test_a_tie_before_the_move_does_not_spare_the_one_behind_it() -> None:
    code = """\
        import torch
        from transformers import AutoModel

        device = torch.device("cuda")
        net = AutoModel.from_pretrained("x")
        net.tie_weights()
        net.to(device)
        """
    assert after_move(code) == "net.tie_weights()"
