"""Values that reach a place by way of containers, registries, generators, callbacks, processes and names."""

from __future__ import annotations

import pytest
from transforms.asking import across, facts, kinds
from transforms.helpers import check_transformed, findings, migrate

HEAD = """
device = torch.device("cuda")
net = Net().to(device)
loader = DataLoader(data, batch_size=4)
"""


@pytest.mark.parametrize(
    "code",
    [
        "steps = []\nsteps.append(optim.SGD(p, 0.1))\nfor s in steps:\n    s.step()",
        "steps = [optim.Adam(p)]\nsteps.insert(0, optim.SGD(p, 0.1))\nfor s in steps:\n    s.step()",
        "steps = []\nsteps.extend([optim.SGD(p, 0.1)])\ns = steps[-1]\ns.step()",
        "steps = {}\nsteps['a'] = optim.SGD(p, 0.1)\ns = steps['a']\ns.step()",
        "steps = dict()\nsteps.update(a=optim.SGD(p, 0.1))\nfor s in steps.values():\n    s.step()",
        "steps = {}\nsteps.setdefault('a', optim.SGD(p, 0.1))\ns = steps[name]\ns.step()",
        "def walk(depth):\n    found = [optim.SGD(p, 0.1)]\n    found.extend(walk(depth - 1))\n"
        "    return found\n"
        "for s in walk(3):\n    s.step()",
        "steps = {}\nsteps.setdefault('a', [])\nsteps['a'].append(optim.SGD(p, 0.1))\n"
        "for s in steps['a']:\n    s.step()",
    ],
)
def test_what_is_put_into_a_container_is_found_in_it(code: str) -> None:
    assert kinds(code, "s") == {"optimizer"}


def test_what_is_put_under_another_key_is_not_found() -> None:
    code = "steps = {}\nsteps['a'] = optim.SGD(p, 0.1)\nsteps['b'] = DataLoader(d)\ns = steps['a']\ns.run()"
    assert kinds(code, "s") == {"optimizer"}


def test_an_empty_container_tells_nothing() -> None:
    assert kinds("steps = []\nfill(steps)\nfor s in steps:\n    s.run()", "s") == set()


def test_a_variable_of_the_same_name_elsewhere_puts_nothing_in() -> None:
    code = "def f():\n    steps = []\n    steps.append(Net())\nsteps = []\nfor s in steps:\n    s.run()"
    assert kinds(code, "s") == set()


def test_a_container_of_an_instance() -> None:
    code = """
    class Trainer:
        def __init__(self):
            self.steps = []
        def add(self, p):
            self.steps.append(optim.SGD(p, 0.1))
        def run(self):
            for s in self.steps:
                s.step()
    """
    assert kinds(code, "s") == {"optimizer"}


REGISTRY = """
KNOWN = {}
def register(name):
    def put(cls):
        KNOWN[name] = cls
        return cls
    return put
@register("net")
class Small(Net):
    pass
model = KNOWN[name]()
"""


def test_a_registry_that_decorators_fill() -> None:
    assert facts(REGISTRY, "model") == {("model", "Small")}


def test_a_decorator_without_arguments_is_handed_the_function() -> None:
    code = "KNOWN = {}\ndef known(fn):\n    KNOWN['a'] = fn\n    return fn\n@known\n"
    code += "def make():\n    return Net()\nmodel = KNOWN[name]()"
    assert kinds(code, "model") == {"model"}


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("getattr(optim, name)(p)", {"optimizer"}), ("getattr(torch.optim, 'Adam')(p)", {"optimizer"}),
        ("getattr(optim, name, optim.SGD)(p)", {"optimizer"}), ("models.__dict__[arch]()", {"model"}),
        ("getattr(nn, name)()", {"model"}), ("getattr(torch, name)(p)", set()),
        ("getattr(ours, name)(p)", set()), ("optim.__dict__[name](p)", {"optimizer"}),
    ],
)  # fmt: skip
def test_a_name_that_a_value_chooses(expression: str, kind: set[str]) -> None:
    assert kinds(f"x = {expression}\nprint(x)", "x") == kind


def test_the_choices_of_an_option_are_the_names() -> None:
    code = """
    parser = argparse.ArgumentParser()
    parser.add_argument("--opt", default="SGD", choices=["SGD", "Adam"])
    args = parser.parse_args()
    x = getattr(optim, args.opt)(p)
    """
    assert facts(code, "x") == {("optimizer", "torch.optim.SGD"), ("optimizer", "torch.optim.Adam")}


def test_a_function_of_the_program_that_a_value_chooses() -> None:
    made = "import torch.nn as nn\n{}def small():\n    return nn.Linear(1, 1)\n"
    files = {
        "nets": made.format("def big():\n    return nn.Linear(9, 9)\n"),
        "train": "import nets\nmodel = getattr(nets, name)()\nprint(model)\n",
    }  # fmt: skip
    assert across(files, "train", "model") == {"model"}


def test_a_process_is_handed_its_arguments() -> None:
    code = "def run(rank, m):\n    m.train()\np = mp.Process(target=run, args=(0, Net()))"
    assert kinds(code, "m") == {"model"}


def test_a_star_hands_over_what_a_tuple_holds() -> None:
    assert kinds("def run(a, m):\n    print(m)\ngiven = (1, Net())\nrun(*given)", "m") == {"model"}
    assert kinds("def run(a, m):\n    print(m)\nrun(*elsewhere())", "m") == set()


def test_options_by_keyword_hand_over_what_a_dictionary_holds() -> None:
    code = "def run(a, m):\n    print(m)\ngiven = dict(a=1, m=Net())\nrun(**given)"
    assert kinds(code, "m", 1) == {"model"}


def test_a_callback_is_handed_what_its_caller_gives() -> None:
    code = """
    class Trainer:
        def __init__(self):
            self.calls = {}
            self.device = torch.device("cuda")
        def on(self, event, call):
            self.calls.setdefault(event, []).append(call)
        def run(self):
            for call in self.calls.get("end", []):
                call(self)
    def report(trainer):
        print(trainer.device)
    trainer = Trainer()
    trainer.on("end", report)
    """
    assert kinds(code, "trainer.device") == {"device"}


def test_an_instance_that_is_called_is_handed_arguments() -> None:
    code = """
    class Scaler:
        def __init__(self):
            self.inner = torch.cuda.amp.GradScaler()
        def __call__(self, loss, optimizer):
            self.inner.step(optimizer)
    scaler = Scaler()
    scaler(loss, optim.SGD(p, 0.1))
    """
    assert kinds(code, "optimizer") == {"optimizer"}


def test_a_method_may_be_the_one_of_a_subclass() -> None:
    code = """
    class Base:
        def make(self):
            raise NotImplementedError
        def run(self):
            opt = self.make()
            opt.step()
    class Ours(Base):
        def make(self):
            return optim.SGD(p, 0.1)
    Ours().run()
    """
    assert kinds(code, "opt") == {"optimizer"}


LOG_EVERY = """
class Meter:
    def log_every(self, iterable, freq):
        for i, obj in enumerate(iterable):
            {extra}
            yield obj
"""
LOOP = """
optimizer = optim.SGD(net.parameters(), lr=0.1)
meter = Meter()
for x, y in meter.log_every({loader}, 10):
    loss = (net(x.to(device)) - y.to(device)).sum()
    loss.backward()
    optimizer.step()
"""
IMPORTS = "import torch\nfrom torch import nn, optim\nfrom torch.utils.data import DataLoader\n"
NET = "net = nn.Linear(8, 1).cuda()\n"


def _script(extra: str, loader: str = "loader") -> str:
    made = HEAD.replace("net = Net().to(device)\n", NET)
    return IMPORTS + LOG_EVERY.format(extra=extra) + made + LOOP.format(loader=loader)


def test_a_generator_that_hands_on_batches_is_given_the_device_loader() -> None:
    code = _script("print(i, len(iterable))")
    expected = code.replace(
        "loader = DataLoader(data, batch_size=4)\n",
        "loader = DataLoader(data, batch_size=4)\ndevice_loader = pl.MpDeviceLoader(loader, device)\n",
    ).replace("log_every(loader, 10)", "log_every(device_loader, 10)")
    expected = expected.replace("net(x.to(device)) - y.to(device)", "net(x) - y")
    expected = expected.replace(
        "import DataLoader\n", "import DataLoader\nimport torch_xla.distributed.parallel_loader as pl\n"
    )
    check_transformed(code, expected, "loaders", "transfers")


def test_a_generator_that_asks_for_more_keeps_the_loader() -> None:
    code = _script("print(i, iterable.batch_size)")
    assert findings(code, "loaders", "transfers") == [("XLA503", 17)]
    assert "MpDeviceLoader" not in migrate(code, "loaders", "transfers").code


def test_a_generator_that_makes_something_else_of_batches_is_no_loader() -> None:
    code = _script("obj = prepared(obj)")
    assert "MpDeviceLoader" not in migrate(code, "loaders", "transfers").code


def test_a_generator_without_end_hands_on_what_it_goes_through() -> None:
    code = "def cycle(dl):\n    while True:\n        for data in dl:\n            yield data\n"
    assert facts(code + "it = cycle(DataLoader(d))\nx = next(it)\nprint(x)", "x") == {("tensor", "batch")}


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        ("Optional[torch.optim.Optimizer]", {"optimizer"}), ("torch.optim.Optimizer | None", {"optimizer"}),
        ("Union[Net, DataLoader]", {"model", "loader"}), ("Sequence[torch.optim.Optimizer]", {"sequence"}),
        ("ours.Thing[Net]", set()), ("Optional[Elsewhere]", set()),
    ],
)  # fmt: skip
def test_what_an_annotation_declares(annotation: str, kind: set[str]) -> None:
    code = f"from typing import Optional, Sequence, Union\ndef f(x: {annotation}):\n    print(x)\n"
    assert kinds(code, "x") == kind


@pytest.mark.parametrize(
    ("annotation", "text", "kind"),
    [
        ("List[DataLoader]", "x[0]", {"loader"}), ("Dict[str, DataLoader]", "x['a']", {"loader"}),
        ("Tuple[Net, DataLoader]", "x[1]", {"loader"}), ("Tuple[DataLoader, ...]", "x[1]", {"loader"}),
        ("list[DataLoader]", "x[i]", {"loader"}), ("list[int]", "x[0]", {"number"}),
    ],
)  # fmt: skip
def test_what_a_container_is_declared_to_hold(annotation: str, text: str, kind: set[str]) -> None:
    code = f"from typing import Dict, List, Tuple\ndef f(x: {annotation}, i):\n    print({text})\n"
    assert kinds(code, text) == kind


def test_a_declaration_stands_for_the_callers_that_are_not_understood() -> None:
    code = "def f(x: torch.optim.Optimizer):\n    x.step()\nf(elsewhere())\nf(optim.SGD(p, 0.1))\n"
    assert facts(code, "x") == {("optimizer", "declared"), ("optimizer", "torch.optim.SGD")}


def test_a_field_is_what_it_is_declared_to_be() -> None:
    code = """
    from dataclasses import dataclass
    @dataclass
    class Data:
        loader: DataLoader
    data = Data(loader=elsewhere())
    print(data.loader)
    """
    assert facts(code, "data.loader") == {("loader", "declared")}


def test_an_abstract_method_is_the_one_of_a_subclass() -> None:
    code = """
    from abc import ABC, abstractmethod
    class Factory(ABC):
        @abstractmethod
        def build(self):
            raise NotImplementedError
    class Ours(Factory):
        def build(self):
            return DataLoader(d)
    def run(factory: Factory):
        loader = factory.build()
        print(loader)
    """
    assert kinds(code, "loader") == {"loader"}


@pytest.mark.parametrize(
    "code",
    [
        "@contextmanager\ndef opened():\n    yield Net()\nwith opened() as x:\n    print(x)",
        "class Opened:\n    def __enter__(self):\n        return Net()\nwith Opened() as x:\n    print(x)",
        "class Held(Net):\n    def __enter__(self):\n        return self\nwith Held() as x:\n    print(x)",
    ],
)
def test_what_a_context_manager_gives(code: str) -> None:
    assert kinds("from contextlib import contextmanager\n" + code, "x") == {"model"}


def test_a_generator_that_asks_an_iterator_hands_on_what_it_gives() -> None:
    code = """
    def timed(iterable):
        source = iter(iterable)
        while True:
            try:
                value = next(source)
                yield value
            except StopIteration:
                return
    for x in timed(DataLoader(d)):
        print(x)
    """
    assert facts(code, "x") == {("tensor", "batch")}


@pytest.mark.parametrize(
    "called",
    [
        "ways = {'a': boxes, 'b': masks}\nways[name](Net())", "ways = [boxes, masks]\nways[0](Net())",
        "def chosen():\n    return boxes\nchosen()(Net())",
    ],
)  # fmt: skip
def test_a_function_that_an_expression_gives_is_handed_arguments(called: str) -> None:
    code = "def boxes(m):\n    print(m)\ndef masks(x):\n    return x\n" + called
    assert kinds(code, "m") == {"model"}


@pytest.mark.parametrize("made", ["found = Ours\nfound(Net())", "{'a': Ours}[name](Net())", "find()(Net())"])
def test_a_class_that_an_expression_gives_is_handed_arguments(made: str) -> None:
    code = "class Base:\n    def __init__(self, m):\n        print(m)\nclass Ours(Base):\n    pass\n"
    code += "class Other(Base):\n    def __init__(self, x):\n        print(x)\ndef find():\n    return Ours\n"
    assert kinds(code + made, "m") == {"model"}
    assert kinds(code + made.replace("Ours", "Other"), "m") == ({"model"} if "find" in made else set())


def test_an_entry_that_is_another_function_hands_nothing_over() -> None:
    code = "def boxes(m):\n    print(m)\ndef masks(x):\n    return x\nways = {'a': masks}\nways['a'](Net())"
    assert kinds(code + "\nelsewhere(boxes)", "m") == set()


def test_a_function_that_a_decorator_registers_is_handed_arguments() -> None:
    code = """
    class Registry:
        def __init__(self):
            self.known = {}
        def register(self):
            def put(function):
                self.known[function.__name__] = function
                return function
            return put
        def get(self, name):
            return self.known.get(name)
    METRICS = Registry()
    @METRICS.register()
    def error(m, crop):
        print(m)
    given = {"m": Net()}
    METRICS.get(name)(**given, **options)
    """
    assert kinds(code, "m") == {"model"}


def test_the_first_parameter_of_a_function_in_a_method_is_not_the_instance() -> None:
    code = """
    class Trainer:
        def __init__(self):
            def visit(part):
                part.model = Net()
            visit(elsewhere())
        def run(self):
            print(self.model)
    """
    assert kinds(code, "self.model") == set()


def test_the_first_parameter_of_a_static_method_is_not_the_instance() -> None:
    code = """
    class Trainer:
        @staticmethod
        def fill(part):
            part.model = Net()
        def run(self):
            print(self.model)
    """
    assert kinds(code, "self.model") == set()


def test_a_partial_hands_its_arguments_to_the_function_it_is_made_of() -> None:
    code = "from functools import partial\ndef k(x):\n    return x\ndef f(m):\n    print(m)\n"
    assert kinds(code + "partial(f, Net())", "m") == {"model"}
    assert kinds(code + "h = f\npartial(h, Net())", "m") == {"model"}
    assert kinds(code + "partial(k, Net())", "m") == set()
    files = {"ours": code, "main": "from functools import partial\nfrom ours import f as h\npartial(h, m=1)"}
    assert across(files, "ours", "m") == {"number"}


CHECKED = "from torch.optim import Optimizer\nclass Trainer:\n    pass\ndef f(x, y):\n    {}\n    print(x)\n"


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        ("assert isinstance(x, Optimizer)", {"optimizer"}), ("assert issubclass(x, Trainer), x", {"class"}),
        ("assert isinstance(x, Trainer) and y", {"instance"}), ("assert isinstance(x, Elsewhere)", set()),
        ("assert isinstance(x, (Optimizer, Trainer))", {"instance", "optimizer"}),
        ("if not isinstance(x, Optimizer):\n        raise TypeError(x)", {"optimizer"}),
        ("if not isinstance(x, Optimizer):\n        print(y)", set()),
        ("if isinstance(x, Optimizer):\n        raise TypeError(x)", set()),
        ("assert isinstance(x, Optimizer) or y", set()), ("assert isinstance(y, Optimizer)", set()),
        ("assert isinstance(x, Optimizer)\n    x = y()", set()),
        ("while y:\n        assert isinstance(x, Optimizer)", set()),
    ],
)  # fmt: skip
def test_what_is_made_sure_of_a_value(check: str, kind: set[str]) -> None:
    assert kinds(CHECKED.format(check), "x", -1) == kind


def test_what_is_made_sure_of_holds_until_it_is_bound_anew() -> None:
    code = "from torch.optim import Optimizer\nwhile going():\n    print(x)\n    x = elsewhere()\n"
    code += "    assert isinstance(x, Optimizer)\n    print(x)\n"
    assert kinds(code, "x", -4) == set()
    assert kinds(code, "x", -1) == {"optimizer"}


LOCALS = """
class Backend(nn.Module):
    def __init__(self, model, device=torch.device("cuda")):
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        {kept}
    def run(self):
        print(self.device, self.optimizer)
"""


def test_variables_that_become_attributes() -> None:
    code = LOCALS.format(kept="self.__dict__.update(locals())")
    assert kinds(code, "self.device") == {"device"}
    assert kinds(code, "self.optimizer") == {"optimizer"}


@pytest.mark.parametrize("kept", ["self.__dict__.update(given)", "other.__dict__.update(locals())"])
def test_variables_that_become_no_attributes(kept: str) -> None:
    assert kinds(LOCALS.format(kept=kept), "self.optimizer") == set()


@pytest.mark.parametrize(
    "code",
    [
        ("def run(**kw):\n    s = kw['opt']\n    s.step()\nrun(net=Net(), opt=optim.SGD(p, 0.1))"),
        ("def run(**kw):\n    s = kw.get('opt')\n    s.step()\nrun(net=Net(), opt=optim.SGD(p, 0.1))"),
        (
            "def inner(opt):\n    s = opt\n    s.step()\ndef run(**kw):\n    inner(**kw)\n"
            "run(opt=optim.SGD(p, 0.1))"
        ),
        (
            "def inner(**kw):\n    s = kw['opt']\n    s.step()\ndef run(**kw):\n    inner(net=Net(), **kw)\n"
            "run(opt=optim.SGD(p, 0.1))"
        ),
        ("def run(a, *rest):\n    s = rest[1]\n    s.step()\nrun(1, Net(), optim.SGD(p, 0.1))"),
        ("class R:\n    def __init__(self, *a):\n        s = a[0]\n        s.step()\nR(optim.SGD(p, 0.1))"),
        ("def run(*opts):\n    for s in opts:\n        s.step()\nrun(optim.SGD(p, 0.1), optim.Adam(p))"),
    ],
)
def test_what_stands_behind_stars_is_found_by_its_keyword_or_position(code: str) -> None:
    assert kinds(code, "s") == {"optimizer"}


@pytest.mark.parametrize(
    "code",
    [
        "def run(a, **kw):\n    s = kw['opt']\n    s.step()\nrun(1, optim.SGD(p, 0.1))",
        "def run(*rest):\n    s = rest[1]\n    s.step()\nrun(*given, optim.SGD(p, 0.1))",
        "def run(a, *rest):\n    s = rest\n    s.step()\nrun(1, optim.SGD(p, 0.1))",
    ],
)
def test_stars_hold_nothing_of_what_arrives_elsewhere(code: str) -> None:
    assert "optimizer" not in kinds(code, "s")
