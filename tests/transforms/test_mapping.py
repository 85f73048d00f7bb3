"""The map of a project: what it finds, how that is connected, and what it says of the unknown."""

from __future__ import annotations

from textwrap import dedent

from xla_transforms.engine import map_program
from xla_transforms.mapping.parts import Node, ProgramMap, ProjectMap

IMPORTS = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
ENGINE = """
    def train_one_epoch(model, loader, optimizer, device):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
"""
MAIN = """
    from engine import train_one_epoch

    def main():
        device = torch.device("cuda")
        model = nn.Linear(8, 1).to(device)
        loader = DataLoader(data, batch_size=16)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(2):
            train_one_epoch(model, loader, optimizer, device)
        torch.save(model.state_dict(), "last.pt")

    if __name__ == "__main__":
        main()
"""


def mapped(files: dict[str, str], commands: dict[str, str] | None = None) -> ProjectMap:
    texts = {path: (IMPORTS + dedent(code)).encode() for path, code in files.items()}
    return map_program(texts, commands=commands)


def only(files: dict[str, str], commands: dict[str, str] | None = None) -> ProgramMap:
    (program,) = mapped(files, commands).programs
    return program


def outline(node: Node, depth: int = 0) -> list[str]:
    text = node.detail if node.kind == "part" else node.text
    return ["  " * depth + text, *(line for child in node.children for line in outline(child, depth + 1))]


def unknown(program: ProgramMap, question: str) -> list[str]:
    return [f"{u.place} {u.text}: {u.reason}" for u in program.answers[question].unknown]


def test_a_project_that_trains_nothing_has_no_program() -> None:
    project = mapped({"infer.py": "model = nn.Linear(8, 1).cuda()\nprint(model(torch.ones(1, 8)))\n"})
    assert project.programs == []
    assert project.others == ["infer.py"]


def test_a_backward_pass_without_a_step_is_no_training() -> None:
    code = "nn.Linear(8, 1).cuda()(torch.ones(1, 8)).sum().backward()\n"
    assert mapped({"profile.py": code}).programs == []


def test_tests_of_a_project_are_no_programs() -> None:
    code = "def test_it():\n    opt = torch.optim.SGD(p, 0.1)\n    loss().backward()\n    opt.step()\n"
    assert mapped({"test_training.py": code}).programs == []


def test_a_program_across_files_is_told_from_its_entry_on() -> None:
    program = only({"main.py": MAIN, "engine.py": ENGINE})
    assert program.started == "python main.py"
    assert outline(program.tree) == [
        "python main.py",
        "  main()",
        "    device",
        "    model",
        "    loader",
        "    optimizer",
        "    for epoch in range(2)",
        "      train_one_epoch()",
        "        for x, y in loader",
        "          backward",
        "          step",
        "    save",
    ]


def test_every_question_resolves_to_a_place() -> None:
    program = only({"main.py": MAIN, "engine.py": ENGINE})
    assert {name: answer.told for name, answer in program.answers.items()} == {
        "entry": "python main.py",
        "loader": "main.py:10",
        "step": "torch.optim.SGD",
        "save": "main.py:14",
        "device": "main.py:8",
    }
    assert program.resolved


def test_parts_are_connected_across_files() -> None:
    project = mapped({"main.py": MAIN, "engine.py": ENGINE})
    parts = {part.role: part for part in project.parts.values()}
    assert parts["optimizer"].uses == (parts["model"].id,)
    assert parts["step"].uses == (parts["optimizer"].id,)
    assert (str(parts["step"].place), parts["step"].function) == ("engine.py:9", "train_one_epoch")
    epochs = project.programs[0].tree.children[0].children[4]
    assert epochs.children[0].children[0].uses == (parts["loader"].id,)


def test_an_optimizer_from_outside_of_the_project_is_unknown_and_said_why() -> None:
    made = MAIN.replace("torch.optim.SGD(model.parameters(), lr=0.1)", "make(model)").replace(
        "from engine", "from elsewhere import make\n    from engine"
    )
    program = only({"main.py": made, "engine.py": ENGINE})
    assert not program.resolved
    (told,) = unknown(program, "step")
    assert told.startswith("engine.py:9 optimizer.step(): parameter optimizer of train_one_epoch(), given")
    assert told.endswith("elsewhere.make(), which main.py:12 calls, is not in the project")


def test_a_step_of_a_class_of_the_program_is_followed_into_it() -> None:
    code = """
    class Several:
        def __init__(self, *inner):
            self.inner = [torch.optim.SGD(p, 0.1), torch.optim.Adam(q)]
        def step(self):
            for optimizer in self.inner:
                optimizer.step()
        def zero_grad(self):
            pass
    def make(name):
        return Several() if name else torch.optim.SGD(p, 0.1)
    optimizer = make(name)
    for _ in range(9):
        loss().backward()
        optimizer.step()
    """
    assert only({"fit.py": code}).answers["step"].told == "torch.optim.Adam, torch.optim.SGD"


def test_a_loader_from_outside_of_the_project_is_unknown() -> None:
    made = "import elsewhere\n" + dedent(MAIN).replace("DataLoader(", "elsewhere.Loader(")
    program = only({"main.py": made, "engine.py": ENGINE})
    (told,) = unknown(program, "loader")
    assert told.startswith("engine.py:6 loader: parameter loader of train_one_epoch()")
    assert told.endswith("elsewhere.Loader(), which main.py:11 calls, is not in the project")


def test_a_function_that_only_others_call_is_a_library() -> None:
    program = only({"engine.py": ENGINE})
    assert not program.answers["entry"].needed
    (told,) = unknown(program, "step")
    assert told.endswith("of train_one_epoch(), which nothing in the project is seen to call")


def test_a_library_that_only_its_tests_call_is_one_all_the_same() -> None:
    calls = MAIN.partition("    if __name__")[0].replace("def main", "def test_training")
    program = only({"test_engine.py": calls, "engine.py": ENGINE})
    assert program.name == "engine.py"
    assert program.started == ""


def test_a_call_that_is_not_followed_leaves_the_entry_unknown() -> None:
    entry = "import engine\nfrom elsewhere import find\nfind('engine').train_one_epoch()\n"
    program = only({"main.py": entry, "engine.py": ENGINE})
    (told,) = unknown(program, "entry")
    assert told.startswith("engine.py:5 train_one_epoch(): main.py:6 calls something of this name")


def test_an_installed_command_is_an_entry() -> None:
    library = MAIN.partition("    if __name__")[0]
    program = only({"pkg/main.py": library, "pkg/engine.py": ENGINE}, {"ours-train": "pkg.main:main"})
    assert program.started == "ours-train (installed command)"
    assert program.resolved


def test_a_command_that_starts_what_a_script_starts_is_the_same_program() -> None:
    program = only({"main.py": MAIN, "engine.py": ENGINE}, {"ours-train": "main:main"})
    assert program.started == "python main.py; ours-train (installed command)"


def test_a_script_for_a_launcher_says_so() -> None:
    joined = MAIN.replace("device = ", 'torch.distributed.init_process_group("nccl")\n        device = ')
    assert only({"main.py": joined, "engine.py": ENGINE}).started == "torchrun main.py"


def test_parameters_that_are_changed_by_hand_are_stepped() -> None:
    code = """
    w = torch.zeros(8, requires_grad=True, device="cuda")
    for _ in range(100):
        loss = (w * batch()).sum()
        loss.backward()
        w.data.add_(w.grad, alpha=-0.1)
    """
    answers = only({"fit.py": code}).answers
    assert answers["step"].told == "parameters are changed by hand in fit.py:6"
    assert not answers["loader"].needed
    assert not answers["save"].needed


def test_a_file_that_is_no_python_is_told() -> None:
    assert mapped({"broken.py": "def f(:\n    torch.cuda.synchronize()\n"}).failed.keys() == {"broken.py"}


def test_a_package_that_hands_on_its_modules_is_one_program_with_them() -> None:
    library = {"lib/__init__.py": "from .engine import train_one_epoch\n", "lib/engine.py": ENGINE}
    entry = {"main.py": MAIN.replace("from engine", "from lib")}
    assert only({**library, **entry}).resolved


def test_a_loop_that_counts_by_an_attribute_makes_its_batches_itself() -> None:
    code = """
    class Trainer:
        def run(self, model, optimizer):
            for self.step in range(10):
                model(torch.rand(4, 8, device="cuda")).sum().backward()
                optimizer.step()

    net = nn.Linear(8, 1).cuda()
    Trainer().run(net, torch.optim.SGD(net.parameters(), lr=0.1))
    """
    assert not only({"main.py": code}).answers["loader"].needed


def test_a_cast_is_no_move() -> None:
    code = """
    net = nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in DataLoader(data):
        kept = x.dtype
        net(x.cuda().float()).to(kept).sum().backward()
        optimizer.step()
    """
    assert only({"main.py": code}).answers["device"].resolved


def test_an_optimizer_that_a_class_from_outside_sets_is_unknown_and_said_why() -> None:
    code = """
    from elsewhere import Base

    class Trainer(Base):
        def run(self, loader):
            for x in loader:
                self.optimizer.zero_grad()
                self.net(x).sum().backward()
                self.optimizer.step()

    Trainer().run(DataLoader(data))
    """
    (told,) = unknown(only({"main.py": code}), "step")
    assert told.endswith("sets self.optimizer of Trainer, which inherits from elsewhere.Base")


def test_what_is_known_to_be_an_optimizer_by_its_use_alone_is_traced_back() -> None:
    code = """
    from elsewhere import get_optimizer

    def train(loader, optimizer):
        for x in loader:
            optimizer.zero_grad()
            net(x.cuda()).sum().backward()
            optimizer.step()

    net = nn.Linear(8, 1).cuda()
    train(DataLoader(data), get_optimizer(net))
    """
    (told,) = unknown(only({"main.py": code}), "step")
    assert told.endswith("elsewhere.get_optimizer(), which main.py:14 calls, is not in the project")
