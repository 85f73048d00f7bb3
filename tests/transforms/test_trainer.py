"""Scripts around transformers' Trainer: little is written, and nothing of Trainer's own work."""

from __future__ import annotations

from textwrap import indent

import pytest
from helpers import check_noop, check_transformed, findings, migrate, only

from xla_transforms.engine import migrate_program
from xla_transforms.settings import Settings

ARGUMENTS = ("trainer_arguments",)
IMPORTS = "import torch\nfrom transformers import Seq2SeqTrainer, Trainer, TrainingArguments\n"
QUIET = ', optim="adamw_torch", dataloader_drop_last=True, dataloader_num_workers=4'
QUIET_THERE = QUIET.replace("adamw_torch", "adamw_torch_xla")


def arguments(text: str) -> str:
    return f'{IMPORTS}\nargs = TrainingArguments("out"{text})\n'


def trainer(text: str = "", around: str = "{}") -> str:
    made = f"Trainer(model=net, args=args{text})"
    return IMPORTS + 'args = TrainingArguments("out")\n' + around.format(made) + "\n"


# ---- nothing is migrated that Trainer does itself


def test_a_subclass_with_its_own_step_and_a_callback_stay_as_they_are() -> None:
    code = """\
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Logging(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            print(logs["loss"])

    class Distilling(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            outputs = model(**inputs)
            return (outputs.loss, outputs) if return_outputs else outputs.loss

        def training_step(self, model, inputs, *rest):
            loss = self.compute_loss(model, self._prepare_inputs(inputs))
            self.accelerator.backward(loss)
            return loss.detach()

        def get_train_dataloader(self):
            return torch.utils.data.DataLoader(self.train_dataset, batch_size=self.args.train_batch_size)

    def run(net, data):
        args = TrainingArguments("out", optim="sgd", dataloader_drop_last=True, dataloader_num_workers=4)
        coach = Distilling(model=net, args=args, train_dataset=data, callbacks=[Logging()])
        coach.train()
        coach.save_model("out")
    """
    outcome = check_noop(code)
    assert [f.code for f in outcome.findings] == ["XLA921", "XLA923"]


def test_a_class_of_the_script_named_trainer_is_none_of_transformers() -> None:
    code = IMPORTS.replace("Trainer, ", "") + "class Trainer:\n    pass\n\nTrainer()\n"
    assert findings(code, "frameworks", "trainer_entry", "trainer_use", *ARGUMENTS) == []


# ---- arguments


@pytest.mark.parametrize("chosen", ['"adamw_torch"', '"sgd"', '"adafactor"', '"adamw_torch_xla"'])
def test_an_optimizer_that_was_chosen_stays(chosen: str) -> None:
    check_noop(arguments(f", optim={chosen}"), *ARGUMENTS)


def test_sagemaker_takes_the_syncfree_optimizer_for_one_that_computes_the_same() -> None:
    settings = Settings(target="sagemaker")
    text = migrate(arguments(', optim="adamw_torch"'), *ARGUMENTS, settings=settings).code
    assert 'optim="adamw_torch_xla"' in text
    assert 'optim="sgd"' in migrate(arguments(', optim="sgd"'), *ARGUMENTS, settings=settings).code


def test_an_optimizer_that_is_handed_over_needs_no_name() -> None:
    check_noop(trainer(", optimizers=(opt, None)"), *ARGUMENTS)


def test_an_optimizer_that_a_subclass_makes_needs_no_name() -> None:
    own = "class Mine(Trainer):\n    def create_optimizer(self):\n        pass\n\n"
    check_noop(arguments("").replace("\nargs", f"\n{own}args") + "Mine(net, args)\n", *ARGUMENTS)


def test_a_subclass_of_the_arguments_with_a_field_of_its_own_stays() -> None:
    code = f"{IMPORTS}class Mine(TrainingArguments):\n    optim: str = 'sgd'\n\nargs = Mine('out')\n"
    check_noop(code, *ARGUMENTS)


def test_arguments_that_come_by_two_stars_are_reported() -> None:
    outcome = check_noop(arguments(", **given"), *ARGUMENTS)
    assert [(f.code, f.severity.label) for f in outcome.findings] == [("XLA924", "info")]


def test_arguments_of_the_command_line_are_reported() -> None:
    code = (
        "from transformers import HfArgumentParser, TrainingArguments\n"
        "parser = HfArgumentParser((Model, TrainingArguments))\n"
    )
    outcome = check_noop(code, *ARGUMENTS)
    assert [(f.code, f.span.line) for f in outcome.findings] == [("XLA924", 2)]
    assert "--optim adamw_torch_xla" in outcome.findings[0].advice


@pytest.mark.parametrize(
    "chosen", ['"paged_adamw_8bit"', '"adamw_bnb_8bit"', "OptimizerNames.ADAMW_APEX_FUSED"]
)
def test_an_optimizer_of_cuda_is_an_error(chosen: str) -> None:
    head = "from transformers.training_args import OptimizerNames\n"
    outcome = check_noop(head + arguments(f", optim={chosen}"), *ARGUMENTS)
    assert ("XLA924", "error") in [(f.code, f.severity.label) for f in outcome.findings]


def test_the_default_optimizer_is_named() -> None:
    check_transformed(
        arguments(""), arguments(', optim="adamw_torch_xla"'), *ARGUMENTS, rules={"XLA924"}
    )


@pytest.mark.parametrize("fused", ['"adamw_torch_fused"', "OptimizerNames.ADAMW_TORCH_FUSED"])
def test_the_fused_optimizer_becomes_that_of_torch_xla(fused: str) -> None:
    head = "from transformers.training_args import OptimizerNames\n"
    before, after = (head + arguments(f", optim={name}") for name in (fused, '"adamw_torch_xla"'))
    check_transformed(before, after, *ARGUMENTS)


def test_an_argument_gets_a_line_of_its_own_where_the_others_have_one() -> None:
    before = f'{IMPORTS}args = TrainingArguments(\n    "out",\n    bf16=True,  # faster\n)\n'
    after = before.replace("faster\n", 'faster\n    optim="adamw_torch_xla",\n')
    check_transformed(before, after, *ARGUMENTS)


def test_where_old_transformers_may_run_the_optimizer_is_a_finding() -> None:
    outcome = check_noop(arguments(""), *ARGUMENTS, settings=Settings(target="2.5"))
    assert "transformers 4.17" in outcome.findings[0].advice


@pytest.mark.parametrize("more", ["fp16=False", "fp16=None", "bf16=True"])
def test_precision_that_is_fine_stays(more: str) -> None:
    check_noop(arguments(f"{QUIET}, {more}"), *ARGUMENTS)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("fp16=True", "bf16=True"),
        ("fp16=torch.cuda.is_available()", "bf16=True"),
        ("fp16=options.half", "bf16=options.half"),
    ],
)
def test_float16_becomes_bfloat16(before: str, after: str) -> None:
    pair = (arguments(f', optim="sgd", {half}') for half in (before, after))
    check_transformed(*pair, *ARGUMENTS, rules={"XLA925"})


@pytest.mark.parametrize("more", ["fp16=True, bf16=flag", 'fp16=True, half_precision_backend="apex"'])
def test_float16_beside_other_choices_is_reported(more: str) -> None:
    outcome = check_noop(arguments(f"{QUIET}, {more}"), *ARGUMENTS)
    assert [(f.code, f.fixed) for f in outcome.findings] == [("XLA925", False)]


def test_float16_stays_where_the_target_computes_in_it() -> None:
    check_noop(arguments(f"{QUIET_THERE}, fp16=True"), *ARGUMENTS, settings=Settings(target="sagemaker"))


def test_an_older_torch_cannot_keep_the_parameters() -> None:
    code = trainer(", optimizers=(opt, None)", OPTIMIZER + "coach = {}")
    outcome = check_noop(code, "trainer_use", settings=Settings(target="2.1"))
    assert [(f.code, f.fixed) for f in outcome.findings] == [("XLA928", False)]


def test_the_last_batch_and_the_workers_are_mentioned() -> None:
    assert findings(arguments(', optim="sgd"'), *ARGUMENTS) == [("XLA926", 4), ("XLA927", 4)]
    assert findings(arguments(QUIET), *ARGUMENTS) == []


@pytest.mark.parametrize("more", ["torch_compile=False", 'torch_compile_backend="openxla"'])
def test_compiling_that_is_off_or_for_xla_stays(more: str) -> None:
    check_noop(arguments(f"{QUIET}, {more}"), *ARGUMENTS)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (', torch_compile=True, optim="sgd"', ', optim="sgd"'),
        (', optim="sgd", torch_compile=True, torch_compile_mode="default"', ', optim="sgd"'),
        (", seed=1, torch_compile=True", ', seed=1, optim="adamw_torch_xla"'),
        (", torch_compile=True", ', optim="adamw_torch_xla"'),
    ],
)
def test_compiling_for_gpus_goes(before: str, after: str) -> None:
    check_transformed(arguments(before), arguments(after), *ARGUMENTS)


@pytest.mark.parametrize("last", ["torch_compile=True,", "torch_compile=True", "torch_compile=True,  # fast"])
def test_compiling_that_stands_on_the_last_line(last: str) -> None:
    head = f'{IMPORTS}args = TrainingArguments(\n    "out",\n    bf16=True,\n'
    ending = "    # fast\n" if "#" in last else ""
    after = f'{head}    optim="adamw_torch_xla",\n{ending})\n'
    check_transformed(f"{head}    {last}\n)\n", after, *ARGUMENTS)


@pytest.mark.parametrize(("value", "codes"), [("True", ["XLA936"]), ("False", [])])
def test_recomputed_activations_are_reported(value: str, codes: list[str]) -> None:
    outcome = check_noop(arguments(f"{QUIET}, gradient_checkpointing={value}"), *ARGUMENTS)
    assert [f.code for f in outcome.findings] == codes


# ---- the entry point

GUARD = 'if __name__ == "__main__":\n    {}\n'
ENTRY = "def _mp_fn(index):\n    main()\n\n\n"


def entry(call: str, function: str = "") -> str:
    body = indent(trainer(around="coach = {}").removeprefix(IMPORTS), "    ")
    return f"{IMPORTS}\n\ndef main():\n{body}\n\n{function}# by hand\n{GUARD.format(call)}"


@pytest.mark.parametrize("call", ["main()", "sys.exit(main())"])
def test_launchers_find_a_function_to_call(call: str) -> None:
    head = "import sys\n"
    check_transformed(head + entry(call), head + entry(call, ENTRY), "trainer_entry")


def test_a_function_that_is_there_stays() -> None:
    assert check_noop(entry("main()", ENTRY), "trainer_entry").findings == ()


@pytest.mark.parametrize("call", ["main(parse())", "fire.Fire(main)", "setup()\n    main()"])
def test_what_a_main_guard_holds_becomes_the_function(call: str) -> None:
    before = entry(call)
    after = before.replace('if __name__ == "__main__":', "def _mp_fn(index):")
    check_transformed(before, after + "\n\n" + GUARD.format("_mp_fn(0)"), "trainer_entry")


def test_names_of_a_main_guard_that_functions_read_stay_the_modules() -> None:
    read = "def length():\n    return tok.size\n\n\n"
    body = f"    tok = make()\n    size = length()\n    coach = {trainer().splitlines()[-1]}\n"
    head = f"{IMPORTS}\n\n{read}"
    after = f"{head}def _mp_fn(index):\n    global tok\n{body}\n\n{GUARD.format('_mp_fn(0)')}"
    check_transformed(f'{head}if __name__ == "__main__":\n{body}', after, "trainer_entry")


@pytest.mark.parametrize(
    "body",
    [
        "def made(): pass\n    main()",  # which a function of the module calls
        "from ours import *\n    main()",
        "main(1)\nelse:\n    setup()",
    ],
)
def test_a_main_guard_that_is_no_function_is_reported(body: str) -> None:
    code = entry(body).replace("def main():\n", "def main():\n    made()\n")
    assert [f.code for f in check_noop(code, "trainer_entry").findings] == ["XLA923"]


@pytest.mark.parametrize(
    "line",
    [
        "import train",
        "import torch\nx = torch.ones(1).cuda()\nexec('y = x')",
        "print(1)\nif 1:\n    from os import *",
    ],
)
def test_a_script_without_main_whose_lines_cannot_move_is_reported(line: str) -> None:
    files = {"train.py": (f"{line}\n{trainer()}").encode()}
    if line == "import train":  # what another one imports is no script
        files = {"train.py": trainer().encode(), "other.py": f"{line}\n".encode()}
    with only("trainer_entry"):
        outcome = migrate_program(files)["train.py"]
    assert not outcome.changes
    assert [f.code for f in outcome.findings] == ["XLA923"]


def test_a_module_that_only_defines_what_trains_is_reported() -> None:
    code = entry("main()").partition("# by hand")[0]
    assert [f.code for f in check_noop(code, "trainer_entry").findings] == ["XLA923"]


def test_a_script_without_main_becomes_the_function_that_launchers_call() -> None:
    head = f"{IMPORTS}parser = argparse.ArgumentParser()\n"
    head = head.replace("import torch", "import argparse\nimport torch")
    head = head.replace("import Seq2SeqTrainer", "import AutoTokenizer")
    made = [
        "tok = AutoTokenizer.from_pretrained('tiny')",
        'args = TrainingArguments("out")',
        "coach = Trainer(model=net, args=args)",
        "coach.train()",
    ]
    shown = "\n\ndef count(rows):\n    return tok(rows)\n\n\n"
    before = head + made[0] + "\n" + shown + "\n".join(made[1:]) + "\n"
    body = "".join(f"    {line}\n" for line in (*made[:1], "", *made[1:])).replace("    \n", "\n")
    after = f"{head}{shown}def _mp_fn(index):\n    global tok\n{body}\n\n{GUARD.format('_mp_fn(0)')}"
    check_transformed(before, after, "trainer_entry")


def test_a_device_that_is_chosen_above_the_guard_is_chosen_in_each_process() -> None:
    lines = 'device = torch.device("cuda")\nn = torch.cuda.device_count()\n\n\n'
    before = entry("main()").replace("def main():\n", f"{lines}def main():\n    print(device, n)\n")
    outcome = migrate(before, "trainer_entry", "device", "cuda_utilities")
    text = outcome.data.decode()
    assert "def _mp_fn(index):\n    global device, n\n    device = torch_xla.device()\n    n = " in text
    assert text.endswith(GUARD.format("_mp_fn(0)"))
    assert "\n\n\n\n" not in text


@pytest.mark.parametrize("above", ["import torch\nimport library  # device\n", "import library\n"])
def test_the_script_that_starts_a_module_with_trainer_gets_the_entry_point(above: str) -> None:
    head = above + "\n\ndef main():\n    library.run()\n\n\n"
    start = head + GUARD.format("main()")
    library = entry("main()").partition("# by hand")[0].replace("def main", "def run")
    outcomes = migrate_program({"start.py": start.encode(), "library.py": library.encode()})
    assert outcomes["start.py"].code == start.replace("if __name__", f"{ENTRY}if __name__")
    assert "_mp_fn" not in outcomes["library.py"].code
    assert "XLA923" not in {f.code for o in outcomes.values() for f in o.findings}


def test_a_module_with_trainer_says_nothing_of_a_script_beside_it() -> None:
    other = f"import torch\n\n\ndef main():\n    print(1)\n\n\n{GUARD.format('main()')}"
    files = {"other.py": other.encode(), "train.py": b"import other\n" + trainer().encode()}
    outcomes = migrate_program(files)
    assert outcomes["other.py"].code == other
    assert "def _mp_fn(index):" in outcomes["train.py"].code


def test_a_script_without_trainer_gets_no_entry_point() -> None:
    assert findings(entry("main()").replace("Trainer(model", "Other(model"), "trainer_entry") == []


# ---- optimizers of the script's own

SWITCH = "torch.__future__.set_swap_module_params_on_conversion({})\n"
OPTIMIZER = "opt = torch.optim.AdamW(net.parameters())\n"


def test_no_optimizer_is_nothing_to_mend() -> None:
    check_noop(trainer(", optimizers=(None, None)"), "trainer_use")


def test_an_optimizer_of_a_model_on_the_device_is_fine() -> None:
    moved = f"net = torch.nn.Linear(2, 2)\nnet.to('cuda')\n{OPTIMIZER}"
    code = trainer(", optimizers=(opt, None)").replace("args =", f"{moved}args =")
    check_noop(code, "trainer_use")


def test_an_optimizer_of_unknown_origin_is_reported() -> None:
    outcome = check_noop(trainer(", optimizers=build(net)"), "trainer_use")
    assert [(f.code, f.severity.label) for f in outcome.findings] == [("XLA928", "warning")]


def test_trainers_move_keeps_the_parameters_of_an_optimizer_built_before() -> None:
    before = trainer(", optimizers=(opt, None)", OPTIMIZER + "coach = {}")
    made = "coach = Trainer(model=net, args=args, optimizers=(opt, None))\n"
    after = before.replace(made, SWITCH.format(True) + made + SWITCH.format(False))
    outcome = check_transformed(before, after, "trainer_use", rules={"XLA928"})
    assert [f.fixed for f in outcome.findings] == [True]


# ---- saving under a guard


def saving(guarded: str) -> str:
    return trainer(around="coach = {}\n" + guarded)


@pytest.mark.parametrize(
    "guarded",
    [
        "coach.save_model('out')",
        "if args.do_train:\n    coach.save_model('out')",
        "if args.local_rank == 0:\n    other.save_model('out')",
        "if args.local_rank == 0:\n    print('done')",
    ],
)
def test_saving_without_a_guard_on_the_rank_stays(guarded: str) -> None:
    assert findings(saving(guarded), "trainer_use") == []


@pytest.mark.parametrize(
    "test", ["args.local_rank in (-1, 0)", "coach.is_world_process_zero()", "args.process_index == 0"]
)
def test_a_guard_on_the_rank_goes(test: str) -> None:
    before = saving(f"if {test}:\n    coach.save_model('out')")
    check_transformed(before, saving("coach.save_model('out')"), "trainer_use", rules={"XLA929"})


@pytest.mark.parametrize(
    "guarded",
    [
        "if args.local_rank == 0 and args.keep:\n    coach.save_model('out')",
        "if args.local_rank == 0:\n    coach.save_model('out')\n    tok.save_pretrained('out')",
        "if args.local_rank == 0:\n    coach.save_model('out')\nelse:\n    wait()",
    ],
)
def test_a_guard_that_does_more_is_reported(guarded: str) -> None:
    code = saving(guarded.replace("{", "{{"))
    outcome = check_noop(code, "trainer_use")
    assert [(f.code, f.fixed) for f in outcome.findings] == [("XLA929", False)]


def test_everything_at_once_names_the_rules_of_the_case() -> None:
    body = OPTIMIZER + "coach = {}\nif args.local_rank in (-1, 0):\n    coach.save_model('out')"
    code = trainer(", optimizers=(opt, None), data_collator=DataCollatorWithPadding(tok)", body)
    code = code.replace('"out")', '"out", fp16=True, dataloader_num_workers=4)').replace(
        "import Seq2SeqTrainer", "import DataCollatorWithPadding"
    )
    codes = {f.code for f in migrate(code).findings}
    assert codes == {"XLA901", "XLA921", "XLA925", "XLA926", "XLA928", "XLA929"}


# ---- what is for GPUs alone, and classes that others derive


@pytest.mark.parametrize("more", ["tf32=False", "tf32=None", 'ddp_backend="xla"'])
def test_arguments_that_do_no_harm_stay(more: str) -> None:
    check_noop(arguments(f"{QUIET}, {more}"), *ARGUMENTS)


@pytest.mark.parametrize("more", ["tf32=True", 'ddp_backend="nccl"', 'tf32=True, ddp_backend="gloo"'])
def test_arguments_that_raise_without_a_gpu_go(more: str) -> None:
    short = ', optim="sgd", bf16=True'
    outcome = migrate(arguments(f"{short}, {more}"), *ARGUMENTS)
    assert outcome.data.decode() == arguments(short)
    assert {change.code for change in outcome.changes} == {"XLA937"}


def test_containers_with_gpus_keep_what_is_for_gpus() -> None:
    check_noop(arguments(f"{QUIET_THERE}, tf32=True"), *ARGUMENTS, settings=Settings(target="sagemaker"))


@pytest.mark.parametrize(
    ("more", "codes"),
    [
        ("deepspeed='ds.json'", ["XLA939"]),
        ("deepspeed=None, fsdp=''", []),
        ("fsdp='full_shard auto_wrap'", ["XLA939"]),
        ("fsdp='full_shard', fsdp_config={'xla': True}", []),
    ],
)
def test_models_that_are_parted(more: str, codes: list[str]) -> None:
    outcome = check_noop(arguments(f"{QUIET}, {more}"), *ARGUMENTS)
    assert [f.code for f in outcome.findings] == codes


def test_the_command_line_of_gpus_keeps_float16() -> None:
    head = "from transformers import HfArgumentParser, TrainingArguments\n"
    code = head + "HfArgumentParser(TrainingArguments)\n"
    (told,) = migrate(code, *ARGUMENTS, settings=Settings(target="sagemaker")).findings
    assert "bf16" not in told.advice
    assert "--dataloader_num_workers" in told.advice


@pytest.mark.parametrize(
    ("package", "made", "trained"),
    [
        ("trl", "SFTConfig", "SFTTrainer"),
        ("sentence_transformers", "SentenceTransformerTrainingArguments", "SentenceTransformerTrainer"),
    ],
)
def test_trainers_that_other_packages_derive(package: str, made: str, trained: str) -> None:
    code = f"from {package} import {made}, {trained}\ncoach = {trained}(net, {made}('out'{{}}))\n"
    name = ', optim="adamw_torch_xla"'
    passes = ("frameworks", "trainer_arguments")
    outcome = check_transformed(code.format(""), code.format(name), *passes, rules={"XLA924"})
    assert "XLA921" in [f.code for f in outcome.findings]
    check_noop(code.format("").replace(f"from {package}", "from ours"))


@pytest.mark.parametrize("test", ["torch.distributed.get_rank() == 0", "int(os.environ['LOCAL_RANK']) == 0"])
def test_a_guard_on_the_rank_of_torch_goes(test: str) -> None:
    code = "import os\n" + saving(f"if {test}:\n    coach.save_model('out')")
    assert migrate(code, "trainer_use").data.decode().endswith("\ncoach.save_model('out')\n")


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("args.fp16 = True", ["XLA925"]),
        ("args.optim = 'adamw_torch_fused'", ["XLA924"]),
        ("args.gradient_checkpointing = True", ["XLA936"]),
        ("args.fp16 = False", []),
        ("args.optim = 'adamw_torch_xla'", []),
        ("other.fp16 = True", []),
    ],
)
def test_what_is_told_behind_the_arguments(line: str, codes: list[str]) -> None:
    outcome = check_noop(arguments(f"{QUIET}") + f"{line}\nTrainer(net, args)\n", *ARGUMENTS)
    assert [f.code for f in outcome.findings] == codes


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("args.set_optimizer(learning_rate=1e-4)", []),
        ("args.set_optimizer(name='adamw_torch')", []),
        ("args.set_optimizer('paged_adamw_8bit')", ["XLA924"]),
        ("args.set_training(gradient_checkpointing=True)", ["XLA936"]),
        ("args = args.set_training()\nargs.set_training().set_optimizer(name=chosen)", ["XLA924"]),
        ("args.set_training(gradient_checkpointing=False)", []),
        ("other.set_optimizer('paged_adamw_8bit')", []),
    ],
)
def test_what_a_setter_tells_the_arguments(line: str, codes: list[str]) -> None:
    outcome = check_noop(arguments(QUIET) + f"{line}\nTrainer(net, args)\n", *ARGUMENTS)
    assert [f.code for f in outcome.findings] == codes


def test_the_fused_optimizer_of_a_setter_becomes_that_of_torch_xla() -> None:
    code = arguments(QUIET.replace("optim=", "seed=")) + "args.set_optimizer(name='{}')\nTrainer(net, args)\n"
    check_transformed(code.format("adamw_torch_fused"), code.replace("'{}'", '"adamw_torch_xla"'), *ARGUMENTS)


def test_batches_and_workers_of_a_setter_are_told() -> None:
    told = "args = args.set_training()\nargs.set_dataloader(drop_last=True, num_workers=2)\n"
    assert findings(arguments(', optim="adamw_torch"') + told + "Trainer(net, args)\n", *ARGUMENTS) == []
