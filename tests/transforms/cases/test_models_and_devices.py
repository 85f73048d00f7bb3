"""Models on their way to the device, and what is asked of the device beside that."""

from __future__ import annotations

from whole import ALONE, DATA, IMPORTS, NET, RANKS, REPLICAS, STEP, becomes, says

LOOP = f"for xs, ys in feed:\n{STEP}"
FEED = "feed = DataLoader(ds, batch_size=4, drop_last=True)\n"
LM = (
    "class Lm(nn.Module):\n    def __init__(self, v, h):\n        super().__init__()\n"
    "        self.emb = nn.Embedding(v, h)\n        self.out = nn.Linear(h, v, bias=False)\n"
    "        self.out.weight = self.emb.weight\n\n"
    "    def forward(self, ids):\n        return self.out(self.emb(ids))\n\n\n"
    "net = Lm(1000, 64).cuda()\nopt = torch.optim.AdamW(net.parameters(), lr=1e-3)\n"
)


def test_tied_weights_are_tied_again_on_the_device_before_the_optimizer() -> None:
    code = ALONE + LM + "net(torch.zeros(2, 3, dtype=torch.long).cuda()).mean().backward()\nopt.step()\n"
    becomes(
        code,
        "device = torch_xla.device()\nnet = Lm(1000, 64).to(device)\nnet.out.weight = net.emb.weight\n"
        "opt = torch.optim.AdamW(net.parameters(), lr=1e-3)\n",
    )
    says(code)


EARLY = (
    "net = nn.Linear(4, 2)\nfor p in net.parameters():\n    p.requires_grad_(True)\n"
    "opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)\n"
    "sched = torch.optim.lr_scheduler.StepLR(opt, step_size=5)\n"
    'if "RESUME" in os.environ:\n    opt.load_state_dict(torch.load("last.pt")["opt"])\n'
    "net.cuda()\ncrit = nn.CrossEntropyLoss()\n"
)


def test_an_optimizer_made_before_the_move_is_made_behind_it() -> None:
    code = ALONE + DATA + FEED + EARLY + LOOP
    becomes(
        code,
        "net.to(device)\nopt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)\n"
        "sched = torch.optim.lr_scheduler.StepLR(opt, step_size=5)\n",
        '    opt.load_state_dict(torch.load("last.pt", map_location="cpu")["opt"])\ncrit = nn',
    )
    says(code)


def test_an_optimizer_made_before_a_move_that_not_every_run_makes() -> None:
    late = EARLY.replace("net.cuda()", 'if "GPU" in os.environ:\n    net.cuda()')
    found = becomes(ALONE + DATA + FEED + late + LOOP)
    text = found.data.decode()
    kept = "set_swap_module_params_on_conversion(True)" in text
    assert kept or any(f.severity.name == "ERROR" for f in found.findings)


UTILITIES = """\
torch.cuda.set_device(0)
torch.backends.cudnn.benchmark = True
on, off = (torch.cuda.Event(enable_timing=True) for _ in range(2))
on.record()
loss = crit(net(ds[0][0].cuda()), ds[0][1].cuda())
off.record()
torch.cuda.synchronize()
print(on.elapsed_time(off), torch.cuda.max_memory_allocated() / 2**20)
torch.cuda.reset_peak_memory_stats()
torch.cuda.empty_cache()
bias = torch.cuda.FloatTensor([0.5])
"""


def test_utilities_of_cuda_have_their_counterpart_or_go() -> None:
    code = ALONE + DATA + NET + UTILITIES
    text = becomes(
        code,
        "on = time.perf_counter()\nloss = crit(net(ds[0][0].to(device)), ds[0][1].to(device))\n"
        "torch_xla.sync(wait=True)\noff = time.perf_counter()\n"
        'print((off - on) * 1000, memory_info()["peak_bytes_used"] / 2**20)\n'
        "bias = torch.tensor([0.5], device=device)\n",
    ).data.decode()
    assert "cuda" not in text
    assert "cudnn" not in text
    says(code)


LEFT = "graph = torch.cuda.CUDAGraph()\nboth = torch.cuda.comm.broadcast(bias, [0, 1])\n"


def test_utilities_without_a_counterpart_are_told() -> None:
    found = becomes(ALONE + DATA + NET + LEFT.replace("bias", "net.weight"))
    lines = (ALONE + DATA + NET + LEFT).splitlines()
    told = {lines[f.span.line - 1].partition(" ")[0] for f in found.findings if f.severity.name == "ERROR"}
    assert {"graph", "both"} <= told


DEVICES = (
    "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    "net = nn.Linear(4, 2).to(device)\ncrit = nn.CrossEntropyLoss().to(device)\n"
    "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n\n\n"
    "def main():\n    for xs, ys in feed:\n        opt.zero_grad()\n"
    "        crit(net(xs.to(device)), ys.to(device)).backward()\n        opt.step()\n\n\n"
    'if __name__ == "__main__":\n    main()\n'
)


def test_what_touches_the_device_waits_for_the_launch() -> None:
    """At import time nothing of the migrated script is on the device."""
    text = becomes(ALONE + DATA + FEED + DEVICES, settings=REPLICAS).data.decode()
    assert "def _mp_fn(index):\n    global crit, device, feed, net, opt\n    feed_sampler = Dist" in text
    assert "    feed = pl.MpDeviceLoader(feed, torch_xla.device())\n    device = torch_xla.device()\n" in text
    at_import = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(" "))
    touching = ("torch_xla.device()", "nn.Linear(", "xr.world_size()", "optim.")
    assert [word for word in touching if word in at_import] == []
    says(ALONE + DATA + FEED + DEVICES, f"XLA174 info: {FEED.strip()}", settings=REPLICAS)
    assert text.endswith('if __name__ == "__main__":\n    torch_xla.launch(_mp_fn)\n')


RANKED = (
    'os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2,3"\n'
    'local = int(os.environ["LOCAL_RANK"])\ntorch.cuda.set_device(local)\n'
    'device = torch.device("cuda", local)\n'
)


def test_a_process_has_one_device_whatever_its_number() -> None:
    code = IMPORTS + RANKED + RANKS.removeprefix(IMPORTS).replace(".cuda()", ".to(device)") + LOOP
    text = becomes(code, "def _mp_fn(index):\n    device = torch_xla.device()\n").data.decode()
    assert "CUDA_VISIBLE_DEVICES" not in text
    assert "xla:" not in text
    says(code)
