"""Variables that were there for CUDA alone go with their last read."""

from __future__ import annotations

import pytest
from helpers import migrate

from xla_transforms import engine

HEAD = "import os\nimport torch\n\n\n"
MODEL = "model = torch.nn.Linear(4, 2).cuda(gpu)"


def after(code: str, path: str = "train.py") -> str:
    text = engine.migrate_bytes(code.encode(), None, path).code
    assert ".cuda(" not in text
    return text


def function(*lines: str, before: str = "", behind: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{HEAD}{before}def main():\n{body}    return model\n\n\n{behind}main()\n"


def script(*lines: str, end: str = "") -> str:
    body = "".join(f"{line}\n" for line in (*lines, MODEL, "for x in data:", "    model(x)"))
    return f"{HEAD}{body}{end}"


GPU = 'gpu = int(os.environ["LOCAL_RANK"])'


# ---- what stays


def test_what_nothing_read_before_stays() -> None:
    assert "left = 3\n" in after(function("left = 3", GPU, MODEL))


def test_what_is_still_read_stays() -> None:
    assert GPU in after(function(GPU, MODEL, "print(gpu)"))


@pytest.mark.parametrize("read", ["lambda: gpu", "[gpu for _ in model]", "f'{gpu}'"])
def test_what_is_read_further_in_stays(read: str) -> None:
    assert GPU in after(function(GPU, MODEL, f"named = {read}", "print(named)"))


@pytest.mark.parametrize(
    "value", ["int(input())", "next(gpus)", "pick()", "await pick()", "(one := 1)", "gpus[0]", "gpus.pop()"]
)
def test_a_value_that_may_do_something_stays(value: str) -> None:
    code = function(f"gpu = {value}", MODEL)
    code = code.replace("def main", "async def main") if "await" in value else code
    assert f"gpu = {value}\n" in after(code)


def test_a_parameter_stays() -> None:
    assert "def main(gpu):" in after(function(MODEL).replace("main()", "main(gpu)", 1))


def test_a_target_of_a_loop_stays() -> None:
    lines = ("for gpu in range(1):", '    x = torch.ones(1).to(f"cuda:{gpu}")', "    print(x)", "model = x")
    assert "    for gpu in range(1):\n" in migrate(function(*lines)).code


def test_what_is_deleted_stays() -> None:
    assert GPU in after(function(GPU, MODEL, "del gpu"))


@pytest.mark.parametrize("asks", ["print(locals())", "print(eval('gpu'))", "print(vars())"])
def test_all_stays_where_names_are_asked_for_by_text(asks: str) -> None:
    assert GPU in after(function(GPU, MODEL, asks))


def test_a_name_of_the_module_that_a_function_writes_stays() -> None:
    code = function("global gpu", GPU, MODEL, before="gpu = 0\n\n\n")
    assert "gpu = 0\n" in after(code)


def test_the_only_statement_of_a_block_stays() -> None:
    assert "    gpu = 1\n" in after(function("gpu = 0", "if fast:", "    gpu = 1", MODEL))


def test_a_chain_of_targets_stays() -> None:
    assert "gpu = other = 1\n" in after(function("gpu = other = 1", MODEL, "print(other)"))


def test_a_tuple_of_which_one_name_is_read_stays() -> None:
    assert "gpu, count = 0, 1\n" in after(function("gpu, count = 0, 1", MODEL, "print(count)"))


def test_a_name_of_a_script_that_others_may_import_stays() -> None:
    guard = 'if __name__ == "__main__":\n    for x in data:\n        model(x)\n'
    assert GPU in after(f"{HEAD}{GPU}\n{MODEL}\n{guard}")


def test_a_name_of_a_script_that_another_file_of_the_program_imports_stays() -> None:
    main = "import torch\nfrom train import model\nfor x in data:\n    model(x.cuda())\n"
    files = {"train.py": script(GPU).encode(), "other.py": main.encode()}
    assert GPU in engine.migrate_program(files)["train.py"].code


def test_a_name_of_a_module_that_is_no_script_stays() -> None:
    assert GPU in after(f"{HEAD}{GPU}\n{MODEL}\n")


@pytest.mark.parametrize("told", ['__all__ = ["gpu"]\n', "import train\nprint(train.gpu)\n"])
def test_a_name_of_a_script_that_is_told_to_others_stays(told: str) -> None:
    assert GPU in after(script(GPU, end=told))


def test_an_attribute_of_a_class_stays() -> None:
    held = "class Held:\n    gpu = 0\n    device = torch.device('cuda', gpu)\n\n\n"
    assert "    gpu = 0\n" in after(function("model = torch.nn.Linear(4, 2).to(Held.device)", before=held))


def test_a_line_that_a_comment_protects_stays() -> None:
    assert "xla-migrate: ignore\n" in after(function(f"{GPU}  # xla-migrate: ignore", MODEL))
    kept = "import os  # xla-migrate: ignore\n"
    assert kept in after(function(GPU, MODEL).replace("import os\n", kept))


def test_a_read_in_a_function_of_the_same_name_elsewhere_counts() -> None:
    other = "class Run:\n    def main(self, gpu):\n        return gpu\n\n\n"
    assert GPU not in after(function(GPU, MODEL, before=other))


# ---- what goes


def test_a_variable_goes_with_its_import() -> None:
    text = after(function(GPU, MODEL))
    assert "gpu" not in text
    assert "import os" not in text


def test_what_only_such_a_variable_read_goes_with_it() -> None:
    lines = ("count = torch.cuda.device_count()", 'rank: int = int(os.getenv("RANK", 0))')
    text = after(function(*lines, "gpu = rank % count", MODEL))
    assert text.split("def main():\n")[1].startswith("    model = ")
    assert "import torch_xla.runtime" not in text


def test_every_value_that_a_variable_had_goes() -> None:
    lines = ("gpu = 0", "if fast:", "    gpu = 1", "    print(1)", MODEL)
    assert "gpu" not in after(function(*lines))


def test_a_tuple_of_which_nothing_is_read_goes() -> None:
    text = after(function("gpu, count = 0, 1", MODEL, "torch.cuda.set_device(count)"))
    assert "count" not in text


def test_one_of_several_statements_of_a_line_goes() -> None:
    assert "    epochs = 3\n" in after(function(f"{GPU}; epochs = 3", MODEL, "print(epochs)"))


def test_a_variable_of_a_script_goes() -> None:
    assert "gpu" not in after(script(GPU))


def test_a_variable_of_a_main_guard_goes() -> None:
    guarded = f'if __name__ == "__main__":\n    {GPU}\n    {MODEL}\n    print(model)\n'
    assert "gpu" not in after(HEAD + guarded)


def test_what_is_told_of_a_line_that_goes_is_not_told() -> None:
    outcome = migrate(function("count = torch.cuda.device_count()", "gpu = 1 % count", MODEL))
    assert [f for f in outcome.findings if "count" in f.message] == []


def test_a_part_of_the_changes_keeps_what_the_rest_reads() -> None:
    outcome = migrate(function(GPU, MODEL, 'x = torch.ones(1).to(f"cuda:{gpu}")', "print(x)"))
    moved = [c.id for c in outcome.changes if "cuda(" in outcome.source[c.spans[-1].start : c.spans[-1].end]]
    assert GPU in outcome.narrow(moved[:1]).code
    assert "gpu" not in outcome.code
