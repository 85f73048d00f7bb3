"""Where a step ends: by one barrier, and what is taken to the host there."""

from __future__ import annotations

from whole import ALONE, DATA, ONE, RANKS, REPLICAS, STEP, becomes, says

LOOP = "for xs, ys in feed:\n"


def test_a_plain_loop_on_one_device_gets_one_barrier() -> None:
    found = becomes(
        ONE + "for epoch in range(4):\n    for xs, ys in feed:\n"
        "        opt.zero_grad()\n        crit(net(xs.cuda()), ys.cuda()).backward()\n        opt.step()\n"
        'print("done")\n',
        "feed = pl.MpDeviceLoader(feed, device)\n",
        "    for xs, ys in feed:\n"
        "        opt.zero_grad()\n        crit(net(xs), ys).backward()\n        xm.optimizer_step(opt)\n"
        'print("done")\n',
    )
    text = found.data.decode()
    assert "sync(" not in text
    assert "barrier=True" not in text


def test_a_step_that_is_timed_keeps_its_own_barrier() -> None:
    code = ONE + (
        "import time\n\nspent = 0.0\nfor xs, ys in feed:\n    t0 = time.perf_counter()\n"
        "    xs, ys = xs.cuda(), ys.cuda()\n" + STEP.replace(".cuda()", "") + "    torch.cuda.synchronize()\n"
        "    spent += time.perf_counter() - t0\n"
        'print(f"{spent / len(feed):.4f} s/it")\n'
    )
    found = becomes(
        code,
        "    xs, ys = xs.to(device), ys.to(device)\n" + STEP.replace(".cuda()", "").replace(
            "opt.step()", "xm.optimizer_step(opt)"
        ) + "    torch_xla.sync(wait=True)\n    spent += time.perf_counter() - t0\n",
    )
    assert "MpDeviceLoader" not in found.data.decode()
    says(code, "XLA603 info: for xs, ys in feed:")


def test_an_evaluation_ends_each_step_and_reads_once() -> None:
    becomes(
        ALONE + DATA + "net = nn.Linear(4, 2).cuda()\n\n\n"
        "@torch.no_grad()\ndef score(net, hold):\n    net.eval()\n    hit = seen = 0\n"
        "    for xs, ys in hold:\n        guess = net(xs.cuda()).argmax(1)\n"
        "        hit += (guess == ys.cuda()).sum()\n        seen += ys.numel()\n"
        "    net.train()\n    return float(hit) / seen\n\n\n"
        "print(score(net, DataLoader(ds, batch_size=4)))\n",
        "    for xs, ys in hold:\n        guess = net(xs).argmax(1)\n        hit += (guess == ys).sum()\n"
        "        seen += ys.numel()\n    net.train()\n    return float(hit) / seen\n",
        "print(score(net, pl.MpDeviceLoader(DataLoader(ds, batch_size=4), device)))\n",
    )


GUARD = (
    "skipped = 0\nfor u, v in feed:\n    cost = crit(net(u.cuda()), v.cuda())\n"
    "    if torch.isnan(cost) or cost > 50:\n        skipped += 1\n        continue\n"
    "    opt.zero_grad()\n    cost.backward()\n    opt.step()\n"
)
TEST = "if torch.isnan(cost) or cost > 50:"


def test_a_guard_against_a_bad_loss_is_read_in_every_step() -> None:
    says(ONE + GUARD, f"XLA702 warning: {TEST}")


def test_a_guard_against_a_bad_loss_lets_one_replica_skip_alone() -> None:
    says(RANKS + GUARD, f"XLA171 error: {TEST}", f"XLA702 warning: {TEST}")
    batch = "XLA174 info: feed = DataLoader(ds, batch_size=4, drop_last=True)"
    says(ONE + GUARD, batch, f"XLA171 error: {TEST}", f"XLA702 warning: {TEST}", settings=REPLICAS)


def test_a_running_loss_and_a_progress_bar_in_every_step() -> None:
    code = ONE + (
        "from tqdm import tqdm\n\nmeter = 0.0\nbar = tqdm(feed)\nfor k, (xs, ys) in enumerate(bar):\n"
        "    opt.zero_grad()\n    cost = crit(net(xs.cuda()), ys.cuda())\n    cost.backward()\n"
        "    opt.step()\n"
        '    meter += cost.item()\n    bar.set_postfix(loss=f"{cost:.4f}")\n'
        "    if (k + 1) % 50 == 0:\n"
        '        print(f"step {k + 1}: {meter / 50:.4f}")\n        meter = 0.0\n'
        "print(crit(net(ds[0][0].cuda()), ds[0][1].cuda()).item())\n"
    )
    becomes(
        code,
        "    xm.optimizer_step(opt)\n    meter += cost.detach()\n\n"
        '    def log_step(cost):\n        bar.set_postfix(loss=f"{cost:.4f}")\n\n'
        "    xm.add_step_closure(log_step, args=(cost,))\n    if (k + 1) % 50 == 0:\n\n"
        "        def log_step_2(k, meter):\n            meter = float(meter)\n"
        '            print(f"step {k + 1}: {meter / 50:.4f}")\n\n'
        "        xm.add_step_closure(log_step_2, args=(k, meter))\n        meter = 0.0\n",
    )
    says(code)


BOARD = (
    'rank = dist.get_rank()\nfrom torch.utils.tensorboard import SummaryWriter\n\n'
    'board = SummaryWriter("a")\n'
    "{}for k, (xs, ys) in enumerate(feed):\n    loss = crit(net(xs.cuda()), ys.cuda())\n"
    "    loss.backward()\n    opt.step()\n    opt.zero_grad()\n"
    '    if rank == 0 and k % 20 == 0:\n        board.add_scalar("train/loss", loss, k)\n'
)


def test_a_board_under_a_guard_is_fed_by_a_closure_that_all_replicas_add() -> None:
    code = RANKS + BOARD.format("")
    becomes(
        code,
        "        if k % 20 == 0:\n\n            def log_step(loss, k):\n                if rank == 0:\n"
        '                    board.add_scalar("train/loss", loss, k)\n\n'
        "            xm.add_step_closure(log_step, args=(loss, k))\n",
    )
    says(code)


WATCH = 'if rank == 0:\n    wandb.watch(net, log="gradients")\n'


def test_a_model_that_the_master_alone_watches() -> None:
    code = RANKS.replace("from torch import nn\n", "import wandb\nfrom torch import nn\n")
    says(code + BOARD.format(WATCH), 'XLA177 error: wandb.watch(net, log="gradients")')
    says(code + BOARD.format(WATCH.replace('"gradients"', "None")))


def test_a_model_that_is_watched_on_one_device() -> None:
    code = ONE.replace("from torch import nn\n", "import wandb\nfrom torch import nn\n")
    says(code + "wandb.watch(net)\n" + LOOP + STEP, "XLA177 warning: wandb.watch(net)")
