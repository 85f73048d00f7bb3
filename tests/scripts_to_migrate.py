"""Training scripts made at random from the ways in which people write their parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[str]], str]

DEVICES = (
    'device = torch.device("cuda")',
    'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    "device = 'cuda:0'",
    'if torch.cuda.is_available():\n    device = torch.device("cuda")\n'
    'else:\n    device = torch.device("cpu")',
    "use_cuda = not args.no_cuda and torch.cuda.is_available()\n"
    'device = torch.device("cuda" if use_cuda else "cpu")',
    "device = torch.device(args.device)",
    "torch.cuda.set_device(0)\ndevice = torch.device(f'cuda:{0}')",
)
MODELS = (
    "model = nn.Linear(4, 4).to(device)",
    "model = nn.Sequential(\n    nn.Linear(4, 4),  # first layer\n    nn.ReLU(),\n).cuda()",
    "model = nn.Linear(4, 4)\nmodel.cuda()",
    "model = torch.nn.DataParallel(nn.Linear(4, 4)).to('cuda')",
)
OPTIMIZERS = (
    "optimizer = optim.SGD(model.parameters(), lr=0.1)",
    "optimizer = torch.optim.Adam(\n    model.parameters(), lr=args.lr\n)",
    "optimizer = optim.LBFGS(model.parameters())",
    "optimizer, scheduler = optim.AdamW(model.parameters()), None",
)
SCALERS = ("scaler = torch.cuda.amp.GradScaler()", "scaler = torch.amp.GradScaler('cuda', enabled=args.amp)")
LOADERS = (
    "loader = DataLoader(rows, batch_size=2)",
    "kwargs = {'num_workers': 1, 'pin_memory': True}\nloader = DataLoader(rows, **kwargs)",
    "loaders = {p: DataLoader(rows) for p in ('train', 'val')}\nloader = loaders['train']",
    "loader = make_loader()",
)
HEADS = (
    "for x, y in loader:",
    "for i, (x, y) in enumerate(loader):",
    "for x, y in tqdm(loader, desc='train'):",
    "for (x, y) in loader : ",
    "while True:\n    x, y = get_batch()",
)
MOVES = (
    "x, y = x.to(device), y.to(device)",
    "x = x.cuda(non_blocking=True); y = y.cuda()",
    "x, y = [t.to(device) for t in (x, y)]",
    "if torch.cuda.is_available():\n    x, y = x.cuda(), y.cuda()",
    "x = x.to('cuda' if torch.cuda.is_available()  # the GPU\n    else 'cpu')  # moved",
    "x, y = x.to(\n    device,\n    non_blocking=True,\n), y.to(device)  # moved",
    "seen.append(y.numpy())\nx = x.to(device)",
)
FORWARDS = (
    "loss = F.mse_loss(model(x), y)",
    "with torch.cuda.amp.autocast():\n    loss = F.mse_loss(model(x), y)",
    "with torch.autocast('cuda', dtype=torch.float16, enabled=args.amp): loss = F.mse_loss(model(x), y)",
    "loss = F.mse_loss(\n    model(x),  # forward\n    y,\n)",
)
STEPS = (
    "optimizer.zero_grad()\nloss.backward()\noptimizer.step()",
    "optimizer.zero_grad(); loss.backward(); optimizer.step()",
    "loss.backward()\nnn.utils.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()",
    "(loss / 4).backward()\nif step % 4 == 0:\n    optimizer.step()\n    optimizer.zero_grad()",
    "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\nscaler.step(optimizer)\nscaler.update()",
    "def closure():\n    optimizer.zero_grad()\n    loss = F.mse_loss(model(x), y)\n    loss.backward()\n"
    "    return loss\noptimizer.step(closure)",
)
ENDS = (
    "pass",
    "running += loss.item()",
    "if step % 10 == 0:\n    print('loss', loss.item())",
    "if step > 5: break",
    "if skip(x):\n    continue\nprint(step)",
    "torch.cuda.synchronize()",
    "bar.set_postfix(loss=f'{loss:.3f}')",
    "losses.append(loss.item())\nif loss.item() < 0.1:\n    return",
)
AFTER = (
    "torch.save(model.state_dict(), 'model.pt')",
    "torch.cuda.empty_cache()",
    "print(torch.cuda.max_memory_allocated() / 2**20, len(loader))",
    "model.load_state_dict(torch.load('model.pt', map_location=device))",
    "print(loader.dataset)",
    "pass",
)
IMPORTS = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader
from tqdm import tqdm
"""
OPTIONS = """\
parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true", help="stay on the cpu")
parser.add_argument("--amp", action="store_true")
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
"""
_CHOICE = {line.strip() for line in DEVICES[3].split("\n")}
REMARKS = (
    "# plain", "#no blank", "#:  odd   blanks ",
    "# \u00fcml\u00e4ut and \u4e2d\u6587", "#!bang",
    "# type: ignore", "# noqa: E501",
)  # fmt: skip


@dataclass(frozen=True)
class Script:
    """A script's text, and the lines in it that no migration has any business with."""

    text: str
    markers: tuple[str, ...]


@st.composite
def scripts(draw: Callable[..., str]) -> Script:
    """A whole training script, in one of many layouts."""
    parts = [draw(st.sampled_from(options)) for options in (DEVICES, MODELS, OPTIMIZERS, SCALERS, LOADERS)]
    loop = [draw(st.sampled_from(options)) for options in (MOVES, FORWARDS, STEPS, ENDS)]
    head = draw(st.sampled_from(HEADS))
    body = "\n".join(loop)
    work = f"{head}\n{_indented(body)}\n{draw(st.sampled_from(AFTER))}"
    lines = _placed(draw, "\n".join([*parts, "running, losses, seen = 0.0, [], []", work]))
    return _laid_out(draw, lines)


def _indented(code: str, unit: str = "    ") -> str:
    return "\n".join(unit + line if line else line for line in code.split("\n"))


def _placed(draw: Callable[..., str], code: str) -> str:
    """The code at module level, in a function or in a method."""
    top = f"import argparse\n{IMPORTS}\n{OPTIONS}"
    where = draw(st.sampled_from(["function", "module", "method"]))
    if where == "module" and "return\n" not in code + "\n":
        return f"{top}\n{code}"
    if where == "method":
        inner = _indented(_indented(code.replace("model", "self.model")))
        return f"{top}\n\nclass Trainer:\n    def fit(self):\n{inner}\n\n\nTrainer().fit()"
    return f'"""Train."""\n{top}\n\ndef main():\n{_indented(code)}\n\n\nmain()'


def _laid_out(draw: Callable[..., str], code: str) -> Script:
    marked, markers = _marked(draw, code.split("\n"))
    unit = draw(st.sampled_from(["    ", "  ", "\t"]))
    lines = [_reindented(line, unit) for line in marked]
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text = newline.join(lines) + draw(st.sampled_from([newline, "", newline * 3, newline + "# end"]))
    if draw(st.booleans()):
        text = text.replace(f"{newline}device =", f"{newline}\f{newline}device =", 1)
    return Script(draw(st.sampled_from(["", "\ufeff"])) + text, tuple(_reindented(m, unit) for m in markers))


def _reindented(line: str, unit: str) -> str:
    depth = (len(line) - len(line.lstrip(" "))) // 4
    return unit * depth + line[4 * depth :]


def _marked(draw: Callable[..., str], lines: list[str]) -> tuple[list[str], list[str]]:
    """Lines of no meaning between the others, remarks above and behind some of them."""
    found: list[str] = []
    markers: list[str] = []
    open_brackets = 0
    for number, line in enumerate(lines):
        choosing = line.strip() in _CHOICE  # a branch that CUDA decides may go, its comments stay
        choice = draw(st.integers(0, 9)) if open_brackets == 0 and line.strip() else 9
        indent = line[: len(line) - len(line.lstrip())]
        fixed = choosing or line.lstrip().startswith(("else", ")", '"""', "import", "from"))
        if choice == 0 and not fixed:
            markers.append(f"{indent}marker_{number}  =  {number}  {draw(st.sampled_from(REMARKS))}")
            found.append(markers[-1])
        if choice == 2 and not line.lstrip().startswith((")", '"""')):
            found.append(f"{indent}{draw(st.sampled_from(REMARKS))} above {number}")
        if choice == 1 and line.strip() and not line.rstrip().endswith('"""'):
            line = f"{line}  {draw(st.sampled_from(REMARKS))} {number}"
        open_brackets += sum(line.count(c) for c in "([{") - sum(line.count(c) for c in ")]}")
        found.append(line)
    return found, markers
