"""Saving and loading."""

from __future__ import annotations

import pytest
from transforms.helpers import check_noop, check_transformed, findings, migrate, open_findings, run_only
from transforms.replicated import launched

BOTH = ("checkpoints", "checkpoint_loading")
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
    check_noop(f"{HEAD}{line}\n", *BOTH)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('torch.save(net.state_dict(), "a.pt")', 'xm.save(net.state_dict(), "a.pt")'),
        ('torch.save(obj=net.state_dict(), f="a.pt")', 'xm.save(net.state_dict(), "a.pt")'),
        ("torch.save(  # all\n    [net.state_dict()], p)", "xm.save(  # all\n    [net.state_dict()], p)"),
        ("torch.save(something, p)", "xm.save(something, p)"),
        ("torch.save(net(x.cuda()), p)", "xm.save(net(x.cuda()), p)"),
    ],
)  # fmt: skip
def test_tensors_are_saved_from_the_cpu(line: str, expected: str) -> None:
    head = HEAD.replace("torch\n\n", "torch\nimport torch_xla.core.xla_model as xm\n\n")
    check_transformed(f"{HEAD}{line}\n", f"{head}{expected}\n", *BOTH, rules={"XLA801"})


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
    text = run_only(f"{HEAD}{line}\nnet.load_state_dict(sd)\n", *BOTH)
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
    check_noop(code, *BOTH)
    assert findings(code, *BOTH) == [("XLA803", 4), ("XLA803", 5)]


def test_save_with_options_is_left_and_named() -> None:
    code = f'{HEAD}torch.save(net.state_dict(), "a.pt", _use_new_zipfile_serialization=False)\n'
    check_noop(code, *BOTH)
    assert findings(code, *BOTH) == [("XLA804", 4)]


PICKLED = "import pickle\nopt = torch.optim.Adam(net.parameters())\nstate = net.state_dict()\n"


@pytest.mark.parametrize(
    "what",
    [
        "{'epoch': 3}",
        "torch.optim.lr_scheduler.StepLR(opt, 1).state_dict()",
        "{k: v.cpu() for k, v in net.state_dict().items()}",
    ],
)
def test_what_is_pickled_and_holds_no_tensor_of_the_device(what: str) -> None:
    assert findings(f"{HEAD}{PICKLED}pickle.dump({what}, f)\n", *BOTH) == []


@pytest.mark.parametrize("what", ["net", "net.state_dict()", "{'opt': opt.state_dict()}", "state"])
def test_tensors_of_the_device_that_are_pickled_are_named(what: str) -> None:
    code = f"{HEAD}{PICKLED}pickle.dump({what}, f)\n"
    check_noop(code, *BOTH)
    assert findings(code, *BOTH) == [("XLA804", 7)]


def test_tensor_that_is_loaded_and_computed_with_is_named() -> None:
    code = f'{HEAD}noise = torch.load("noise.pt", map_location="cuda")\ny = net(noise)\n'
    assert findings(code, *BOTH) == [("XLA805", 4)]


AVERAGED = """\
shadow = {name: value.detach().clone() for name, value in net.state_dict().items()}
table = {"net": net.state_dict(), "shadow": shadow, "epoch": 3, "best": 0.5}
torch.save(table, "a.pt")
ck = torch.load("a.pt", map_location="cuda")
net.load_state_dict(ck["net"])
epoch, best = ck["epoch"], ck["best"]
"""


def test_what_comes_from_a_checkpoint_and_needs_no_move() -> None:
    for line in ("last = ck['epoch']", "net.load_state_dict(ck['shadow'])", "other = ck['name']"):
        assert findings(HEAD + AVERAGED + line + "\n", *BOTH) == []
    on_host = AVERAGED.replace("value.detach()", "value.cpu()") + "shadow = ck['shadow']\n"
    assert findings(HEAD + on_host, *BOTH) == []


def test_averaged_weights_that_a_checkpoint_replaces_are_named() -> None:
    code = HEAD + AVERAGED.replace("torch.save(table", "keep(table")
    assert findings(code + "net.load_state_dict(ck['shadow'])\n", *BOTH) == []
    assert findings(code + "shadow = ck['shadow']\n", *BOTH) == [("XLA805", 10)]


def test_averaged_weights_that_come_from_a_checkpoint_are_named() -> None:
    assert findings(HEAD + AVERAGED + "shadow = ck['shadow']\n", *BOTH) == [("XLA805", 10)]
    own = AVERAGED.replace("net.state_dict().items()", "net.named_parameters()")
    assert findings(HEAD + own + "shadow = ck['shadow']\n", *BOTH) == [("XLA805", 10)]


AVERAGE = """\
class Average:
    def __init__(self, rate=0.9):
        self.rate, self.seen = rate, 0
        self.shadow = {}

    def register(self, module):
        for name, value in module.named_parameters():
            self.shadow[name] = value.data.clone()

    def load_state_dict(self, state):
        self.shadow = state

    def count(self, seen):
        self.seen = seen


average = Average()
average.register(net)
torch.save([net.state_dict(), average.shadow, 3], "a.pt")
states = torch.load("a.pt", map_location="cuda")
net.load_state_dict(states[0])
"""


def test_what_an_object_keeps_of_a_checkpoint_and_needs_no_move() -> None:
    own = "average.count(states[2])\n"
    assert findings(HEAD + AVERAGE + own, *BOTH) == []
    load = "average.load_state_dict(states[1])\n"
    for kept, copied in (
        ("self.shadow = state\n", "self.shadow = {name: value.to('xla') for name, value in state.items()}\n"),
        ("value.data.clone()", "value.data.cpu().clone()"),
    ):
        assert findings(HEAD + AVERAGE.replace(kept, copied) + load, *BOTH) == []


@pytest.mark.parametrize("argument", ["states[1]", "state=states[1]"])
def test_averaged_weights_that_an_object_keeps_are_named(argument: str) -> None:
    code = HEAD + AVERAGE + f"average.load_state_dict({argument})\n"
    outcome = migrate(code, *BOTH)
    told = [(f.code, f.message) for f in open_findings(outcome)]
    assert told == [("XLA805", "self.shadow of Average is on the CPU")]


LOADER = """\
class Files:
    def load(self, name):
        found = torch.load(name)
        return found


def load(name):
    files = Files()
    return files.load(name)


"""


def loaded(use: str, load: str = "load('a.pt')") -> str:
    """A script that gets from functions what they load."""
    return HEAD + LOADER + f"got = {load}\n{use}\n"


def test_what_a_function_loads_and_needs_no_move() -> None:
    for use in ("net.load_state_dict(got)", "net.load_state_dict(got['net'])", "epoch = got['epoch']"):
        assert findings(loaded(use), *BOTH) == []
    assert findings(loaded("net(got)").replace("load(name)", "load(name, map_location='cpu')"), *BOTH) == []


def test_a_module_that_the_function_moves_which_loads_it_is_not_moved_again() -> None:
    code = loaded("got.eval()").replace("return found", "found = found.cuda()\n        return found")
    assert "got = load('a.pt')\n" in run_only(code)


@pytest.mark.parametrize("load", ["load('a.pt')", "Files().load('a.pt')"])
def test_a_tensor_that_a_function_loads_is_named_where_it_is_used(load: str) -> None:
    outcome = migrate(loaded("net(got)", load), *BOTH)
    assert [(f.code, f.message) for f in open_findings(outcome)] == [("XLA805", "got is on the CPU")]


def test_a_module_that_a_function_loads_moves_to_the_device_where_it_is_used() -> None:
    text = run_only(loaded("got.eval()"))
    assert "got = load('a.pt').to(torch_xla.device())" in text
    assert 'found = torch.load(name, map_location="cpu")\n' in text


def test_a_module_that_an_attribute_is_loaded_with_moves_to_the_device() -> None:
    body = "        self.net = torch.load('a.pt')\n        self.net.eval()\n"
    code = f"{HEAD}class A:\n    def __init__(self):\n{body}"
    assert "self.net = torch.load('a.pt', map_location=\"cpu\").to(" in run_only(code)


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
        *BOTH,
        rules={"XLA802"},
    )


def test_random_state_from_a_file_gets_its_tuple_back() -> None:
    code = f"""{HEAD}import random
torch.save({{"net": net.state_dict(), "python": random.getstate()}}, p)
random.setstate(saved["python"])
here = random.getstate()
random.setstate(here)
"""
    text = run_only(code, *BOTH)
    assert 'random.setstate((saved["python"][0], tuple(saved["python"][1]), saved["python"][2]))' in text
    assert "random.setstate(here)" in text


def test_random_state_of_a_script_that_saves_nothing_stays() -> None:
    check_noop(f"{HEAD}import random\nrandom.setstate(state)\n", *BOTH)


def test_tuple_that_is_saved_is_told() -> None:
    code = f'{HEAD}torch.save({{"net": net.state_dict(), "size": (2, 3)}}, p)\n'
    assert findings(code, *BOTH) == [("XLA806", 4)]


def test_a_model_of_a_class_from_elsewhere_is_known_by_what_is_done_with_it() -> None:
    code = """\
        import torch
        from elsewhere import Net

        net = Net().cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net.train()
        torch.save(net, "net.pt")
        """
    assert ("XLA803", 7) in findings(code, "checkpoints")


def test_a_variable_that_only_says_where_to_load_keeps_its_place() -> None:
    check_transformed(
        """\
        import torch

        loc = f"cuda:{rank}"
        state = torch.load("a.pt", map_location=loc)
        model.load_state_dict(state)
        """,
        """\
        import torch

        loc = "cpu"
        state = torch.load("a.pt", map_location=loc)
        model.load_state_dict(state)
        """,
    )


def saved(*lines: str) -> str:
    """The save of a script of several processes, as it is written for replicas."""
    text = run_only(launched("rank = dist.get_rank()", "state = make()", *lines), "checkpoints")
    return next(line.strip() for line in text.splitlines() if "save(" in line)


@pytest.mark.parametrize(
    "lines",
    [
        ("torch.save(state, path)",),
        ('torch.save(state, f"{epoch}.pt")',),
        ('torch.save(state, f"{dist.get_world_size()}.pt")',),
        ("if rank == 0:", '    torch.save(state, f"{rank}.pt")'),
    ],
)
def test_of_what_all_replicas_save_to_one_file_the_master_writes(lines: tuple[str, ...]) -> None:
    assert "master_only" not in saved(*lines)


@pytest.mark.parametrize(
    "lines",
    [
        ('torch.save(state, f"{rank}.pt")',),
        ('torch.save(f="part%d.pt" % dist.get_rank(), obj=state)',),
        ('name = "part" + str(rank)', 'path = os.path.join("out", name + ".pt")', "torch.save(state, path)"),
    ],
)
def test_each_replica_writes_a_file_that_has_its_rank_in_its_name(lines: tuple[str, ...]) -> None:
    assert saved(*lines).endswith(", master_only=False)")


def test_a_path_with_a_rank_may_come_from_a_caller() -> None:
    before = "\n\ndef keep(state, path):\n    torch.save(state, path)\n"
    code = launched('keep(make(), f"rank{dist.get_rank()}.pt")', before=before)
    assert "    xm.save(state, path, master_only=False)\n" in run_only(code, "checkpoints")


def test_a_folder_given_beside_the_rank_has_no_rank_in_it() -> None:
    before = (
        "\n\nclass Keeper:\n    def __init__(self, folder, rank):\n"
        "        self.folder, self.rank = folder, rank\n\n"
        '    def keep(self, state):\n        torch.save(state, self.folder + "/last.pt")\n'
    )
    code = launched('Keeper("out", dist.get_rank()).keep(make())', before=before)
    assert '        xm.save(state, self.folder + "/last.pt")\n' in run_only(code, "checkpoints")


def test_a_save_by_another_name_is_written_as_one() -> None:
    code = HEAD + "keep = torch.save\nkeep(net.state_dict(), path)\n"
    assert "\nxm.save(net.state_dict(), path)\n" in run_only(code, *BOTH)
    assert findings(code, *BOTH) == []


@pytest.mark.parametrize(
    "line",
    [
        "pool.submit(torch.save, net.state_dict(), path)",
        "keep = functools.partial(torch.save, f=path)",
        'writers = {"torch": torch.save}',
        "keep = torch.save if first else skip",
    ],
)
def test_a_save_that_is_handed_on_is_reported(line: str) -> None:
    assert findings(HEAD + line + "\n", *BOTH) == [("XLA804", HEAD.count("\n") + 1)]


@pytest.mark.parametrize(
    "lines",
    [
        ("buffer = io.BytesIO()", "torch.save(state, buffer)"),
        ("with tempfile.NamedTemporaryFile() as f:", "    torch.save(state, f.name)"),
        ('torch.save(state, os.path.join(tempfile.mkdtemp(), "a.pt"))',),
    ],
)
def test_each_replica_writes_a_file_that_the_others_do_not_know(lines: tuple[str, ...]) -> None:
    code = launched("state = make()", *lines, before="import io\nimport os\nimport tempfile\n")
    text = run_only(code, "checkpoints")
    assert ", master_only=False)" in text


def test_what_a_data_set_saves_in_the_processes_of_a_loader_stays() -> None:
    data = "class Data(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n        spec = work(i)\n"
    code = f'{HEAD}{data}        torch.save(spec, f"{{i}}.pt")\n        return spec\n'
    check_noop(code, "checkpoints")
    assert "xm.save(spec" in run_only(code.replace("torch.utils.data.Dataset", "Other"), "checkpoints")
