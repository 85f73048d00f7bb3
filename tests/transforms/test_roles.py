"""What each expression of a program is, and that unknown stays unknown."""

from __future__ import annotations

import textwrap

import pytest
from transforms.asking import facts, kinds, path

# ---- unknown stays unknown


@pytest.mark.parametrize("name", ["model", "optimizer", "loader", "train_loader", "device", "loss", "scaler"])
def test_a_name_alone_says_nothing(name: str) -> None:
    assert kinds(f"def f({name}):\n    return {name}\n", name) == set()
    assert kinds(f"{name} = build()\nprint({name})\n", name) == set()
    assert kinds(f"from somewhere import {name}\nx = {name}()\nprint(x)\n", "x") == set()


def test_a_step_alone_makes_no_optimizer() -> None:
    assert kinds("def f(env):\n    env.step()\n    return env\n", "env") == set()


def test_a_function_of_the_same_name_is_not_torchs() -> None:
    code = """
        def DataLoader(rows):
            return rows.open()
        feed = DataLoader(read())
        print(feed)
        """
    assert kinds(code, "feed") == set()


def test_a_local_class_that_shadows() -> None:
    code = """
        class optim:
            class SGD: ...
        opt = optim.SGD(1)
        print(opt)
        """
    assert "optimizer" not in kinds(code, "opt")


def test_a_name_bound_both_ways_is_both() -> None:
    code = """
        x = DataLoader(data) if flag else [1]
        print(x)
        """
    assert kinds(code, "x") == {"loader", "sequence"}


def test_recursion_ends() -> None:
    code = """
        def f(x):
            return f(x)
        def g(x):
            return h(x)
        def h(x):
            return g(x)
        a = f(1)
        b = g(2)
        c = c
        print(a, b, c)
        """
    assert kinds(code, "a") == set()
    assert kinds(code, "b") == set()


# ---- by the catalog


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ("torch.device('cuda')", "device"), ("Net()", "model"), ("nn.Linear(2, 2)", "model"),
        ("nn.Sequential(Net())", "model"), ("models.resnet18()", "model"), ("nn.CrossEntropyLoss()", "model"),
        ("nn.DataParallel(Net())", "model"), ("torch.compile(Net())", "model"), ("copy.deepcopy(Net())",
        "model"),
        ("Net().cuda()", "model"), ("Net().to('cuda').train()", "model"),
        ("optim.SGD(p, lr=1)", "optimizer"), ("torch.optim.AdamW(p)", "optimizer"),
        ("StepLR(o, 1)", "scheduler"), ("optim.lr_scheduler.OneCycleLR(o)", "scheduler"),
        ("torch.cuda.amp.GradScaler()", "scaler"), ("torch.amp.GradScaler('cuda')", "scaler"),
        ("DataLoader(d)", "loader"), ("torch.utils.data.DataLoader(d)", "loader"),
        ("datasets.MNIST('.')", "dataset"), ("torch.utils.data.TensorDataset(a)", "dataset"),
        ("torch.utils.data.RandomSampler(d)", "sampler"), ("torch.zeros(2)", "tensor"),
        ("F.cross_entropy(a, b)", "tensor"), ("Net()(x)", "tensor"), ("torch.load('x')", "state"),
        ("Net().state_dict()", "state"), ("argparse.ArgumentParser()", "parser"),
        ("argparse.ArgumentParser().parse_args()", "arguments"), ("torch.cuda.Event()", "event"),
        ("torch.cuda.Stream()", "stream"), ("Net().parameters()", "parameters"), ("len(d)", "number"),
        ("torch.zeros(2).item()", "number"), ("torch.cuda.is_available()", "boolean"),
        ("torch.zeros(2) > 1", "tensor"), ("torch.zeros(2) * 3", "tensor"), ("-torch.zeros(2)", "tensor"),
        ("torch.zeros(2)[0]", "tensor"), ("torch.zeros(2) is None", "boolean"), ("not x", "boolean"),
        ("iter(DataLoader(d))", "iterator"), ("f'cuda:{i}'", "string"), ("lambda: 1", "function"),
        ("next(iter(DataLoader(d)))", "tensor"), ("DataLoader(d).dataset", "dataset"),
        ("sum(torch.zeros(2))", "tensor"), ("float(torch.zeros(1))", "number"),
    ],
)  # fmt: skip
def test_what_calls_give(made: str, kind: str) -> None:
    assert kinds(f"x = {made}\nprint(x)\n", "x") == {kind}


def test_import_paths_resolve() -> None:
    assert path("import torch.cuda.amp as a\na.autocast\n", "a.autocast") == "torch.cuda.amp.autocast"
    assert path("from torch.cuda import amp\namp.autocast\n", "amp.autocast") == "torch.cuda.amp.autocast"
    assert path("import torch\nc = torch.cuda\nc.Event\n", "c.Event") == "torch.cuda.Event"
    assert path("def f():\n    import torch\n    torch.cuda\n", "torch.cuda") == "torch.cuda"
    assert path("torch = load()\ntorch.cuda\n", "torch.cuda") == ""
    assert path("x.cuda\n", "x.cuda") == "builtins.x.cuda"


# ---- through assignments


def test_tuple_unpacking() -> None:
    code = """
        net, (opt, feed) = Net(), (optim.SGD(p), DataLoader(d))
        print(net, opt, feed)
        """
    assert kinds(code, "net") == {"model"}
    assert kinds(code, "opt") == {"optimizer"}
    assert kinds(code, "feed") == {"loader"}


def test_chained_assignment_walrus_and_annotation() -> None:
    assert kinds("a = b = Net()\nprint(a, b)\n", "b") == {"model"}
    assert kinds("if (net := Net()): print(net)\n", "net") == {"model"}
    assert kinds("net: nn.Module = build()\nprint(net)\n", "net") == {"model"}


def test_a_later_value_counts_later() -> None:
    code = """
        x = Net()
        print(x)
        x = DataLoader(d)
        print(x)
        """
    assert kinds(code, "x", -3) == {"model"}
    assert kinds(code, "x") == {"loader"}


def test_none_at_first_says_nothing() -> None:
    code = "scaler = None\nif amp:\n    scaler = torch.amp.GradScaler()\nprint(scaler)\n"
    assert kinds(code, "scaler") == {"scaler"}


# ---- through functions


def test_parameters_by_their_calls() -> None:
    code = """
        def train(net, opt, *, feed):
            print(net, opt, feed)
        train(Net(), optim.SGD(p), feed=DataLoader(d))
        """
    assert kinds(code, "net") == {"model"}
    assert kinds(code, "opt") == {"optimizer"}
    assert kinds(code, "feed", -2) == {"loader"}


def test_parameters_by_annotation_and_default() -> None:
    code = """
        def f(a: nn.Module, b: torch.optim.Optimizer, c=Net(), d: "torch.Tensor" = None):
            print(a, b, c, d)
        """
    assert [kinds(code, n) for n in "abcd"] == [{"model"}, {"optimizer"}, {"model"}, {"tensor"}]


def test_a_star_in_the_call_leaves_it_open() -> None:
    assert kinds("def f(a):\n    print(a)\nf(*things)\n", "a") == set()


def test_returns() -> None:
    code = """
        def build():
            net = Net()
            return net, optim.SGD(net.parameters())
        net, opt = build()
        print(net, opt)
        """
    assert kinds(code, "net") == {"model"}
    assert kinds(code, "opt") == {"optimizer"}


def test_returns_of_both_ways() -> None:
    code = """
        def build(fast):
            if fast:
                return DataLoader(d)
            return [1, 2]
        x = build(True)
        print(x)
        """
    assert kinds(code, "x") == {"loader", "sequence"}


def test_a_generator_gives_what_it_yields() -> None:
    code = """
        def batches(feed):
            for x, y in feed:
                yield x.cuda(), y.cuda()
        for x, y in batches(DataLoader(d)):
            print(x)
        """
    assert kinds(code, "x") == {"tensor"}


def test_through_two_functions() -> None:
    code = """
        def inner(opt):
            print(opt)
        def outer(o):
            inner(o)
        outer(optim.Adam(p))
        """
    assert kinds(code, "opt") == {"optimizer"}


def test_recursive_parameters_keep_what_comes_from_outside() -> None:
    code = """
        def f(net, n):
            print(net)
            if n:
                f(net, n - 1)
        f(Net(), 3)
        """
    assert kinds(code, "net", 1) == {"model"}


# ---- through classes

TRAINER = """
    class Trainer:
        def __init__(self, net, lr):
            self.net = net.cuda()
            self.opt = optim.SGD(self.net.parameters(), lr)
            self.loaders = {"train": DataLoader(a), "val": DataLoader(b)}
            self.rows = None

        @property
        def loader(self):
            return self.loaders["train"]

        @staticmethod
        def build(x):
            return x

        def fit(self):
            self.opt.step()
            for x, y in self.loader:
                print(x, self.net, self.opt, self.loaders["val"], self.rows, self.build(Net()))

    trainer = Trainer(Net(), 1)
    print(trainer.opt, trainer.net)
    """


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("self.net", "model"), ("self.opt", "optimizer"), ("self.loader", "loader"), ("x", "tensor"),
        ('self.loaders["val"]', "loader"), ("trainer.opt", "optimizer"), ("trainer.net", "model"),
        ("self.build(Net())", "model"),
    ],
)  # fmt: skip
def test_attributes_of_self(text: str, kind: str) -> None:
    assert kinds(TRAINER, text) == {kind}


def test_attributes_set_to_nothing_are_not_known() -> None:
    assert kinds(TRAINER, "self.rows") == set()


def test_attributes_of_another_class_do_not_count() -> None:
    code = """
        class A:
            def __init__(self):
                self.x = Net()
        class B:
            def f(self):
                return self.x
        """
    assert kinds(code, "self.x") == set()


def test_inherited_attributes_and_methods() -> None:
    code = """
        class Base:
            def __init__(self):
                self.opt = optim.SGD(p)
            def make(self):
                return DataLoader(d)
        class Mine(Base):
            def fit(self):
                print(self.opt, self.make())
        """
    assert kinds(code, "self.opt") == {"optimizer"}
    assert kinds(code, "self.make()") == {"loader"}


def test_subclasses_of_torchs_classes() -> None:
    code = """
        class Sub(Net): ...
        class Rows(Dataset): ...
        class Feed(DataLoader): ...
        class Lazy(torch.utils.data.IterableDataset): ...
        a, b, c, d = Sub(), Rows(), Feed(), Lazy()
        print(a, b, c, d)
        """
    assert kinds(code, "a") == {"model"}
    assert "dataset" in kinds(code, "b")
    assert "loader" in kinds(code, "c")
    assert "dataset" in kinds(code, "d")


def test_dataclass_fields_by_annotation_and_by_call() -> None:
    code = """
        @dataclass
        class Parts:
            net: nn.Module
            feed: object
        parts = Parts(net=Net(), feed=DataLoader(d))
        print(parts.net, parts.feed)
        """
    assert kinds(code, "parts.net") == {"model"}
    assert kinds(code, "parts.feed") == {"loader"}


# ---- through containers


def test_a_dictionary_of_loaders() -> None:
    code = """
        loaders = {"train": DataLoader(a), "val": DataLoader(b)}
        for phase in ["train", "val"]:
            for x, y in loaders[phase]:
                print(x)
        for name, feed in loaders.items():
            print(feed)
        """
    assert kinds(code, "loaders[phase]") == {"loader"}
    assert facts(code, "x") == {("tensor", "batch")}
    assert kinds(code, "feed") == {"loader"}


def test_a_dictionary_made_by_comprehension_or_call() -> None:
    assert kinds("l = {p: DataLoader(d) for p in ps}\nprint(l[q])\n", "l[q]") == {"loader"}
    assert kinds("l = dict(a=DataLoader(d))\nprint(l['a'])\n", "l['a']") == {"loader"}


def test_keys_that_differ_do_not_mix() -> None:
    code = 'm = {"net": Net(), "opt": optim.SGD(p)}\nprint(m["net"], m["opt"], m["other"])\n'
    assert kinds(code, 'm["net"]') == {"model"}
    assert kinds(code, 'm["opt"]') == {"optimizer"}
    assert kinds(code, 'm["other"]') == set()


def test_a_list_of_optimizers() -> None:
    code = """
        opts = [optim.SGD(a), optim.Adam(b)]
        for o in opts:
            print(o)
        print(opts[0])
        """
    assert kinds(code, "o") == {"optimizer"}
    assert kinds(code, "opts[0]") == {"optimizer"}
    assert kinds("opts = [optim.SGD(m) for m in ms]\nfor o in opts:\n    print(o)\n", "o") == {"optimizer"}


def test_enumerate_and_zip() -> None:
    code = """
        for i, (o, s) in enumerate(zip([optim.SGD(a)], [StepLR(b)])):
            print(i, o, s)
        """
    assert kinds(code, "i") == {"number"}
    assert kinds(code, "o") == {"optimizer"}
    assert kinds(code, "s") == {"scheduler"}


def test_wrapped_loaders_still_give_batches() -> None:
    for wrapped in ("tqdm(feed)", "enumerate(feed)", "enumerate(tqdm(feed, total=3))", "iter(feed)"):
        target = "i, x" if wrapped.startswith("enumerate") else "x"
        code = f"feed = DataLoader(d)\nfor {target} in {wrapped}:\n    print(x)\n"
        assert facts(code, "x") == {("tensor", "batch")}, wrapped


def test_a_bar_that_is_assigned_first() -> None:
    code = """
        bar = tqdm(DataLoader(d))
        for x, y in bar:
            print(y)
        """
    assert facts(code, "y") == {("tensor", "batch")}


def test_a_list_that_a_script_makes_of_an_option() -> None:
    code = """
        parser = argparse.ArgumentParser()
        parser.add_argument("--gpu_ids", default="0")
        opt = parser.parse_args()
        given = opt.gpu_ids.split(",")
        opt.gpu_ids = []
        for text in given:
            opt.gpu_ids.append(int(text))
        first = opt.gpu_ids[0]
        print(first)
        """
    assert kinds("import argparse\n" + textwrap.dedent(code), "first") == {"number"}


def test_a_list_that_grows_is_not_empty() -> None:
    code = """
        opts = []
        opts.append(optim.SGD(a))
        for o in opts:
            print(o)
        """
    assert kinds(code, "o") == {"optimizer"}


# ---- where tensors live


@pytest.mark.parametrize(
    ("made", "place"),
    [
        ("torch.zeros(2)", "host"), ("torch.zeros(2, device='cuda')", "device"), ("torch.zeros(2).cuda()",
        "device"),
        ("torch.zeros(2, device='cpu')", "host"), ("torch.zeros(2).to('cuda')", "device"),
        ("torch.zeros(2).cuda().cpu()", "host"), ("Net()(x)", "device"), ("Net()(x) + 1", "device"),
        ("torch.cuda.FloatTensor(2)", "device"), ("torch.zeros(2).cuda().detach()", "device"),
    ],
)  # fmt: skip
def test_where_a_tensor_lives(made: str, place: str) -> None:
    assert facts(f"t = {made}\nprint(t)\n", "t") == {("tensor", place)}


def test_a_batch_is_a_batch_until_it_is_moved() -> None:
    code = """
        for x, y in DataLoader(d):
            print(x)
            x = x.cuda()
            print(x)
        """
    assert facts(code, "x", -4) == {("tensor", "batch")}
    assert facts(code, "x", -2) == {("tensor", "batch")}
    assert facts(code, "x") == {("tensor", "device")}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("x.dtype", {"dtype"}), ("torch.zeros(2).dtype", {"dtype"}), ("torch.get_default_dtype()", {"dtype"}),
        ("args.dtype", set()), ("Settings().dtype", {"string"}), ("x.device", set()),
    ],
)  # fmt: skip
def test_what_is_a_data_type(given: str, kind: set[str]) -> None:
    head = "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
    code = f"{head}class Settings:\n    dtype = 'cuda'\nx = elsewhere()\nd = {given}\nprint(d)"
    assert kinds(code, "d") == kind


def test_a_cast_to_the_type_of_another_tensor_moves_nothing() -> None:
    assert facts("def f(x):\n    t = torch.zeros(2).to(x.dtype)\n    print(t)", "t") == {("tensor", "host")}
    assert facts("def f(x, d: torch.dtype):\n    t = torch.zeros(2).cuda().to(d)\n    print(t)", "t") == {
        ("tensor", "device")
    }


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ("elsewhere.Lion(Net().parameters(), lr=0.1)", {"optimizer"}),
        ("elsewhere.Lion(params=Net().parameters(), lr=0.1)", {"optimizer"}),
        ("elsewhere.EMA(Net().parameters(), decay=0.9)", set()), ("elsewhere.Lion(p, lr=0.1)", set()),
        ("hvd.DistributedOptimizer(optim.SGD(p, 0.1), named_parameters=n)", {"optimizer"}),
    ],
)  # fmt: skip
def test_an_optimizer_from_elsewhere(made: str, kind: set[str]) -> None:
    assert kinds(f"import elsewhere\nimport horovod.torch as hvd\no = {made}\nprint(o)\n", "o") == kind


# ---- options and conditions
