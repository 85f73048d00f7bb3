"""What a launcher ran once for each process becomes a function."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, findings, migrate
from replicated import IMPORTS, launched

from xla_transforms.settings import Settings


def test_what_a_launcher_ran_is_a_function_of_its_own() -> None:
    code = launched("pass")
    guard = 'if __name__ == "__main__":\n'
    expected = code.replace(guard + "    main()\n", "def _mp_fn(index):\n    main()\n")
    expected += "\n\n" + guard + "    torch_xla.launch(_mp_fn)\n"
    check_transformed(code, expected.replace("Sampler\n", "Sampler\nimport torch_xla\n", 1), "entry_points")


def test_names_that_functions_read_stay_global() -> None:
    code = launched("print(args)").replace("    main()\n", "    args = parse()\n    main()\n")
    code = code.replace("\n\nif __name__", "\n_mp_fn = 1\n\n\nif __name__")
    guard = 'if __name__ == "__main__":\n'
    body = "def _mp_fn_(index):\n    global args\n    args = parse()\n    main()\n"
    expected = code.replace(guard + "    args = parse()\n    main()\n", body)
    expected += "\n\n" + guard + "    torch_xla.launch(_mp_fn_)\n"
    check_transformed(code, expected.replace("Sampler\n", "Sampler\nimport torch_xla\n", 1), "entry_points")


JOINED = IMPORTS + 'import argparse\n'
XLA = "import argparse\nimport torch_xla\n"
LAUNCH = '\n\nif __name__ == "__main__":\n    torch_xla.launch(_mp_fn)\n'


def wraps(before: str, after: str) -> None:
    """The top level of a script that joins a group becomes a function."""
    code, expected = (f"{JOINED}\ntorch.cuda.is_available()\n" + text for text in (before, after + LAUNCH))
    expected = expected.replace("import argparse\n", XLA)
    check_transformed(code, expected, "entry_points")


def test_a_script_of_one_process_stays() -> None:
    check_noop("import torch\nx = torch.ones(1).cuda()\nx.sum().backward()\n", "entry_points")


def test_a_helper_that_trains_nothing_gets_no_entry() -> None:
    asked = Settings(distributed=True)
    code = "import torch\nx = torch.ones(1).cuda()\n"
    assert findings(code, "entry_points", settings=asked) == []


def test_a_script_for_one_device_is_launched_where_the_user_asks() -> None:
    code = "import torch\nx = torch.ones(1, requires_grad=True).cuda()\nx.sum().backward()\n"
    done = migrate(code, "entry_points", settings=Settings(distributed=True)).code
    assert done.endswith("def _mp_fn(index):\n    x = torch.ones(1, requires_grad=True).cuda()\n"
                         "    x.sum().backward()\n" + LAUNCH)  # fmt: skip


def test_the_command_line_is_read_outside() -> None:
    parsed = "parser = argparse.ArgumentParser()\nargs = parser.parse_args()\nLIMIT = 3\n"
    wraps(
        parsed + 'dist.init_process_group("nccl")\nx = torch.ones(1).cuda()\n',
        parsed + "\n\ndef _mp_fn(index):\n"
        '    dist.init_process_group("nccl")\n    x = torch.ones(1).cuda()\n',
    )


def test_what_is_made_of_the_launchers_option_is_each_process_own() -> None:
    parsed = 'parser = argparse.ArgumentParser()\nparser.add_argument("--local_rank", type=int)\n'
    parsed += "args = parser.parse_args()\n"
    joined = 'dist.init_process_group("nccl")\nx = torch.ones(1).cuda()\n'
    lines = "args.distributed = args.local_rank != -1\n" + joined
    moved = "".join(f"    {line}\n" for line in lines.splitlines())
    wraps(parsed + lines, parsed + "\n\ndef _mp_fn(index):\n" + moved)


def test_what_a_function_reads_from_the_launcher_is_each_process_own() -> None:
    reads = "def one(name):\n    return int(os.environ[name])\n\n"
    lines = 'RANK = one("RANK")\ndist.init_process_group("nccl", rank=RANK)\n'
    moved = "".join(f"    {line}\n" for line in lines.splitlines())
    wraps(reads + lines, reads + "\ndef _mp_fn(index):\n" + moved)


def test_definitions_stay_and_what_they_read_is_global() -> None:
    wraps(
        'dist.init_process_group("nccl")\nx = torch.ones(1).cuda()\n\n\n'
        "def show():\n    print(x)\n\n\nshow()\n",
        "\n\ndef show():\n    print(x)\n\n\ndef _mp_fn(index):\n    global x\n"
        '    dist.init_process_group("nccl")\n    x = torch.ones(1).cuda()\n\n    show()\n',
    )


def test_a_definition_that_is_computed_from_what_moves_moves() -> None:
    wraps(
        'dist.init_process_group("nccl")\nx = 3\ny = torch.ones(x).cuda()\n'
        "def show(y=y):\n    print(y)\n\nshow()\n",
        'x = 3\n\n\ndef _mp_fn(index):\n    dist.init_process_group("nccl")\n    y = torch.ones(x).cuda()\n'
        "    def show(y=y):\n        print(y)\n\n    show()\n",
    )


def test_lines_within_a_string_keep_their_place() -> None:
    wraps(
        'dist.init_process_group("nccl")\nprint("""a\n  b""", f"""{1}\nc""")\n',
        '\n\ndef _mp_fn(index):\n    dist.init_process_group("nccl")\n'
        '    print("""a\n  b""", f"""{1}\nc""")\n',
    )


def test_what_touches_a_device_above_the_guard_moves_into_it() -> None:
    guard = 'if __name__ == "__main__":\n'
    wraps(
        "# where\ndevice = torch.device('cuda')\n\n\ndef main():\n    dist.init_process_group('nccl')\n"
        f"    print(device)\n\n\n# go\n{guard}    main()  # all\n",
        "\n\ndef main():\n    dist.init_process_group('nccl')\n    print(device)\n\n\n"
        "def _mp_fn(index):\n    global device\n    # where\n    device = torch.device('cuda')\n\n    # go\n"
        "    main()  # all\n",
    )


def test_a_name_that_a_definition_changes_is_global() -> None:
    wraps(
        'dist.init_process_group("nccl")\nbest = 0\n\n\n'
        "def f():\n    global best\n    best += 1\n\n\nf()\nbest = 2\n",
        "\n\ndef f():\n    global best\n    best += 1\n\n\ndef _mp_fn(index):\n    global best\n"
        '    dist.init_process_group("nccl")\n    best = 0\n\n    f()\n    best = 2\n',
    )


def test_options_that_ask_for_a_rank_move_with_all_that_reads_them() -> None:
    options = (
        'parser.add_argument("--local_rank", default=int(os.environ["LOCAL_RANK"]))',
        "args = parser.parse_args()",
        'dist.init_process_group("nccl")',
    )
    lines, inner = ("".join(f"{indent}{line}\n" for line in options) for indent in ("", "    "))
    head = "parser = argparse.ArgumentParser()\n"
    wraps(head + lines, f"{head}\n\ndef _mp_fn(index):\n{inner}")


def test_what_comes_behind_the_last_statement_moves_with_it() -> None:
    code = IMPORTS + 'dist.init_process_group("nccl")\nmodel = DDP(torch.nn.Linear(2, 2).cuda())\n'
    assert "    xm.broadcast_master_param(model)\n\n\nif __name__" in migrate(code).code


SETTINGS = """\
device = "cuda"
lr = 0.1
names = [k for k in globals() if not k.startswith("_")]
exec(open("settings.py").read())
"""
JOINS = 'rank = int(os.environ.get("RANK", -1))\nif rank != -1:\n    dist.init_process_group("nccl")\n'


def test_settings_among_the_global_names_stay_outside_with_the_name_of_the_device() -> None:
    code = f"{IMPORTS}\n{SETTINGS}\n{JOINS}model = torch.nn.Linear(2, 2).to(device)\nprint(lr)\n"
    text = migrate(code).code
    head, _, body = text.partition("def _mp_fn(index):\n")
    assert SETTINGS.replace('"cuda"', '"xla"') in head
    assert "    model = torch.nn.Linear(2, 2).to(device)\n" in body
    assert "XLA163" not in [rule for rule, _ in findings(code)]


def test_what_a_function_puts_on_the_device_is_made_in_the_processes() -> None:
    made = "\n\ndef make():\n    return torch.nn.Linear(2, 2).to(device)\n\n\nmodel = make()\n"
    guard = 'if __name__ == "__main__":\n    print(model)\n'
    body = migrate(f"{IMPORTS}\n{SETTINGS}{made}{JOINS}{guard}").code.partition("def _mp_fn(index):\n")[2]
    assert "    model = make()\n" in body


def test_settings_that_need_the_rank_cannot_stay_outside() -> None:
    code = f"{IMPORTS}\n{JOINS}{SETTINGS}model = torch.nn.Linear(2, 2).to(device)\n"
    assert "XLA163" in [rule for rule, _ in findings(code)]


def test_what_stands_above_such_settings_stays_with_them() -> None:
    code = f"{IMPORTS}\nrun = open('name').readline().title()\n{SETTINGS}\n{JOINS}print(run, lr)\n"
    head, _, body = migrate(code).code.partition("def _mp_fn(index):\n")
    assert "run = open('name').readline().title()\n" + SETTINGS.replace('"cuda"', '"xla"') in head
    assert "    print(run, lr)\n" in body


def test_vars_of_an_object_works_on_no_names() -> None:
    code = IMPORTS + 'print(vars(parser))\ndist.init_process_group("nccl")\n'
    assert "def _mp_fn(index):\n    print(vars(parser))\n" in migrate(code).code


@pytest.mark.parametrize("call", ["vars()", "locals()", "dir()", 'exec("lr = 1")'])
def test_what_works_on_the_names_around_it_cannot_move(call: str) -> None:
    moved = f'dist.init_process_group("nccl")\nprint({call})\n'
    guarded = 'if __name__ == "__main__":\n' + "".join(f"    {line}\n" for line in moved.splitlines())
    for code in (moved, guarded):
        found = [f.message for f in migrate(IMPORTS + code).findings if f.code == "XLA163"]
        assert [m.partition("(")[0] for m in found] == [call.partition("(")[0]]


@pytest.mark.parametrize(
    "reads",
    [
        ('print(globals()["loss"])\n', ""),
        ("show()\n", 'def show():\n    print(globals()["loss"])\n'),
        ("show()\n", 'def show():\n    print(eval("loss"))\n'),
    ],
)
@pytest.mark.parametrize("guard", [False, True])
def test_names_read_by_their_text_are_global(reads: tuple[str, str], guard: bool) -> None:
    call, function = reads
    body = f'dist.init_process_group("nccl")\nloss = torch.ones(1).cuda()\n{call}'
    if guard:
        body = 'if __name__ == "__main__":\n' + "".join(f"    {line}\n" for line in body.splitlines())
    assert "def _mp_fn(index):\n    global loss\n" in migrate(IMPORTS + function + body).code


def test_a_reading_by_text_of_imports_alone_makes_nothing_global() -> None:
    code = f'{IMPORTS}model = globals()["torch"].nn\ndist.init_process_group("nccl")\nloss = 1\n'
    assert "global " not in migrate(code).code
