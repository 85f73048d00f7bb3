"""Saving and loading."""

from __future__ import annotations

import pytest
from transforms.helpers import check_noop, check_transformed, findings, run_only

HEAD = "import torch\n\nnet = torch.nn.Linear(2, 2).cuda()\n"


@pytest.mark.parametrize(
    "line",
    [
        'torch.save([0.1, 2], "curve.pt")',
        'torch.save({"epoch": 3, "name": "x"}, "meta.pt")',
        'torch.save(torch.zeros(3), "host.pt")',
        'net.load_state_dict(torch.load("a.pt", map_location="cpu"))',
        'net.load_state_dict(torch.load("a.pt", map_location=torch.device("cpu")))',
        'net.load_state_dict(torch.load("a.pt", lambda storage, loc: storage))',
        'torch.jit.load("a.pt", map_location="cpu")',
        "pickle.dump(net, f)",
    ],
)
def test_what_needs_no_change_stays(line: str) -> None:
    check_noop(f"{HEAD}{line}\n", "checkpoints")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('torch.save(net.state_dict(), "a.pt")', 'xm.save(net.state_dict(), "a.pt")'),
        ('torch.save(obj=net.state_dict(), f="a.pt")', 'xm.save(net.state_dict(), "a.pt")'),
        ("torch.save(  # all\n    {'net': net.state_dict(), 'n': 1}, p)", "xm.save(  # all\n    {'net': net.state_dict(), 'n': 1}, p)"),
        ("torch.save(something, p)", "xm.save(something, p)"),
        ("torch.save(net(x.cuda()), p)", "xm.save(net(x.cuda()), p)"),
    ],
)  # fmt: skip
def test_tensors_are_saved_from_the_cpu(line: str, expected: str) -> None:
    head = HEAD.replace("torch\n\n", "torch\nimport torch_xla.core.xla_model as xm\n\n")
    check_transformed(f"{HEAD}{line}\n", f"{head}{expected}\n", "checkpoints", rules={"XLA801"})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('sd = torch.load("a.pt")["net"]', 'sd = torch.load("a.pt", map_location="cpu")["net"]'),
        ('sd = torch.load("a.pt", "cuda:0")["net"]', 'sd = torch.load("a.pt", "cpu")["net"]'),
        (
            'sd = torch.load("a.pt", map_location=f"cuda:{rank}", weights_only=True)["net"]',
            'sd = torch.load("a.pt", map_location="cpu", weights_only=True)["net"]',
        ),
        (
            'sd = torch.load("a.pt", map_location=lambda s, loc: s.cuda(0))["net"]',
            'sd = torch.load("a.pt", map_location="cpu")["net"]',
        ),
        (
            'sd = torch.load("a.pt", map_location={"cuda:1": "cuda:0"})["net"]',
            'sd = torch.load("a.pt", map_location="cpu")["net"]',
        ),
        (
            "sd = torch.hub.load_state_dict_from_url(url, map_location=device)",
            'sd = torch.hub.load_state_dict_from_url(url, map_location="cpu")',
        ),
    ],
)
def test_loading_maps_to_the_cpu(line: str, expected: str) -> None:
    text = run_only(f"{HEAD}{line}\nnet.load_state_dict(sd)\n", "checkpoints")
    assert text == f"{HEAD}{expected}\nnet.load_state_dict(sd)\n"


def test_map_location_that_the_device_pass_writes_too() -> None:
    code = f'{HEAD}net.load_state_dict(torch.load("a.pt", map_location=torch.device("cuda")))\n'
    assert 'torch.load("a.pt", map_location="cpu")' in run_only(code)


def test_whole_module_that_is_loaded_moves_to_the_device() -> None:
    code = """\
    import torch

    device = torch.device("cuda")
    net = torch.load("net.pt", map_location=device, weights_only=False)
    net.eval()
    """
    text = run_only(code)
    assert 'net = torch.load("net.pt", map_location="cpu", weights_only=False).to(device)' in text


def test_whole_module_that_is_saved_is_left_and_named() -> None:
    code = f'{HEAD}torch.save(net, "net.pt")\ntorch.save({{"net": net, "epoch": 1}}, "all.pt")\n'
    check_noop(code, "checkpoints")
    assert findings(code, "checkpoints") == [("XLA803", 4), ("XLA803", 5)]


def test_save_with_options_is_left_and_named() -> None:
    code = f'{HEAD}torch.save(net.state_dict(), "a.pt", _use_new_zipfile_serialization=False)\n'
    check_noop(code, "checkpoints")
    assert findings(code, "checkpoints") == [("XLA804", 4)]


def test_tensor_that_is_loaded_and_computed_with_is_named() -> None:
    code = f'{HEAD}noise = torch.load("noise.pt", map_location="cuda")\ny = net(noise)\n'
    assert findings(code, "checkpoints") == [("XLA805", 4)]


def test_resume_of_a_checkpoint() -> None:
    check_transformed(
        f"""{HEAD}opt = torch.optim.Adam(net.parameters())
ck = torch.load(args.resume, map_location=f"cuda:{{local}}")
net.load_state_dict(ck["net"])
opt.load_state_dict(ck["opt"])
for st in opt.state.values():
    for k, v in st.items():
        if torch.is_tensor(v):
            st[k] = v.cuda()
""",
        f"""{HEAD}opt = torch.optim.Adam(net.parameters())
ck = torch.load(args.resume, map_location="cpu")
net.load_state_dict(ck["net"])
opt.load_state_dict(ck["opt"])
for st in opt.state.values():
    for k, v in st.items():
        if torch.is_tensor(v):
            st[k] = v.cuda()
""",
        "checkpoints",
        rules={"XLA802"},
    )
