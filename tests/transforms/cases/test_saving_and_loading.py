"""Checkpoints: who reaches a save, and where a file is loaded to."""

from __future__ import annotations

import pytest
from whole import ALONE, DATA, NET, RANKS, STEP, becomes, says

INNER = STEP.replace("    ", "        ")
LOOP = f"for epoch in range(3):\n    feed.sampler.set_epoch(epoch)\n    for xs, ys in feed:\n{INNER}"
KEEP = (
    "def keep(net, opt, epoch, path):\n    if dist.get_rank() != 0:\n        return\n"
    "    os.makedirs(os.path.dirname(path), exist_ok=True)\n"
    '    torch.save({"net": net.state_dict(), "epoch": epoch}, path)\n\n\n'
)


def test_a_save_behind_an_early_return_is_reached_by_all() -> None:
    code = RANKS + KEEP + LOOP + '    keep(net, opt, epoch, f"out/{epoch}.pt")\n    dist.barrier()\n'
    found = becomes(
        code,
        "def keep(net, opt, epoch, path):\n    if xm.is_master_ordinal(local=False):\n"
        "        os.makedirs(os.path.dirname(path), exist_ok=True)\n"
        '    xm.save({"net": net.state_dict(), "epoch": epoch}, path)\n',
        '        keep(net, opt, epoch, f"out/{epoch}.pt")\n        xm.rendezvous("main")\n',
    )
    assert found.data.decode().count("rendezvous") == 1
    says(code)


@pytest.mark.parametrize(
    "save",
    [
        '    if dist.get_rank() == 0:\n        torch.save(net.module.state_dict(), "m.pt")\n',
        '    if dist.get_rank() != 0:\n        continue\n    torch.save(net.module.state_dict(), "m.pt")\n',
        '    torch.save(net.module.state_dict(), "m.pt") if dist.get_rank() == 0 else None\n',
    ],
)
def test_a_save_under_a_guard_is_reached_by_all_or_told(save: str) -> None:
    found = becomes(RANKS + LOOP + save)
    reached = '        xm.save(net.state_dict(), "m.pt")\n' in found.data.decode()
    assert reached is not any(f.code == "XLA812" for f in found.findings)


RESUME = (
    "import argparse\n\nparser = argparse.ArgumentParser()\n"
    'parser.add_argument("--resume")\nargs = parser.parse_args()\n{}'
    'ck = torch.load(args.resume, map_location=f"cuda:{{local}}")\nnet.load_state_dict(ck["net"])\n'
    'opt.load_state_dict(ck["opt"])\nscaler.load_state_dict(ck["scaler"])\nfor st in opt.state.values():\n'
    "    for k, v in st.items():\n        if torch.is_tensor(v):\n            st[k] = v.cuda()\n"
    'start = ck["epoch"] + 1\n'
)


def test_a_checkpoint_is_loaded_to_the_host_and_handed_to_what_is_on_the_device() -> None:
    scaler = "scaler = torch.cuda.amp.GradScaler()\nlocal = 0\n"
    code = ALONE + DATA + NET + RESUME.format(scaler)
    text = becomes(
        code,
        'ck = torch.load(args.resume, map_location="cpu")\nnet.load_state_dict(ck["net"])\n'
        'opt.load_state_dict(ck["opt"])\nfor st in opt.state.values():\n'
        "    for k, v in st.items():\n        if torch.is_tensor(v):\n            st[k] = v.to(device)\n"
        'start = ck["epoch"] + 1\n',
    ).data.decode()
    assert "scaler" not in text
    says(code)
