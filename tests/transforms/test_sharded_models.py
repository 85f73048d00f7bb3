from __future__ import annotations

import pytest
from helpers import migrate, open_findings, run_only
from replicated import IMPORTS

from xla_transforms.engine import migrate_program
from xla_transforms.settings import Settings

HEAD = IMPORTS.replace(
    "from torch.nn.parallel import DistributedDataParallel as DDP",
    "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP",
)


def script(*lines: str, names: str = "", before: str = "") -> str:
    """A script that a launcher starts, whose processes shard ``model`` as ``lines`` say, and step."""
    body = "".join(f"    {line}\n" for line in lines)
    more = f"from torch.distributed.fsdp import {names}\n" if names else ""
    return (
        f'{HEAD}{more}{before}\n\ndef main():\n    dist.init_process_group("nccl")\n'
        f"    model = torch.nn.Linear(4, 2).cuda()\n{body}"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    loss = model(torch.randn(2, 4).cuda()).sum()\n    loss.backward()\n    optimizer.step()\n"
        '\n\nif __name__ == "__main__":\n    main()\n'
    )


def told(code: str, target: str = "2.9") -> list[str]:
    """Why a script is left whole, by the lines that are told."""
    outcome = migrate(code, settings=Settings(target=target, black=None))
    assert not outcome.edits
    return [f.message for f in open_findings(outcome) if f.code == "XLA197"]


WRAP = "model = FSDP(model)"


# ---- what is left


@pytest.mark.parametrize(
    ("names", "options"),
    [
        ("", "process_group=group"),
        ("", "ignored_modules=[model.bias]"),
        ("", "param_init_fn=fill"),
        ("", "device_mesh=mesh"),
        ("", "**options"),
        ("", "sync_module_states=True"),
        ("", "auto_wrap_policy=choose"),
        ("", "auto_wrap_policy=lambda module, recurse, nonwrapped_numel: True"),
        ("ShardingStrategy", "sharding_strategy=ShardingStrategy.HYBRID_SHARD"),
        ("ShardingStrategy", "sharding_strategy=ShardingStrategy.NO_SHARD"),
        ("", "sharding_strategy=config.strategy"),
        ("CPUOffload", "cpu_offload=offload()"),
        ("MixedPrecision", "mixed_precision=MixedPrecision(param_dtype=wanted)"),
        ("MixedPrecision", "mixed_precision=MixedPrecision(keep_low_precision_grads=True)"),
        ("MixedPrecision", "mixed_precision=MixedPrecision(cast_root_forward_inputs=False)"),
    ],
)
def test_an_option_without_a_counterpart_leaves_the_program_whole(names: str, options: str) -> None:
    assert len(told(script(f"model = FSDP(model, {options})", names=names))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "model.load_state_dict(torch.load('model.pt'))",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "print(sum(p.grad.norm() for p in model.parameters()))",
        "print(model.module.weight)",
        "with FSDP.summon_full_params(model): pass",
        "torch.optim.SGD(model.parameters(), 0.1).load_state_dict({})",
        "print(FSDP)",
    ],
)
def test_what_looks_at_the_parts_leaves_the_program_whole(line: str) -> None:
    assert len(told(script(WRAP, line))) == 1


def test_parts_that_are_saved_as_parts_leave_the_program_whole() -> None:
    line = "with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT): state = model.state_dict()"
    assert told(script(WRAP, line, names="StateDictType")) == ["only FULL_STATE_DICT has a counterpart"]


def test_a_model_that_is_changed_in_its_place_is_told() -> None:
    [message] = told(script("fully_shard(model)", names="fully_shard"))
    assert message == "fully_shard changes a model in its place, into DTensors"


def test_a_second_model_under_another_wrapper_leaves_the_program_whole() -> None:
    other = "from torch.nn.parallel import DistributedDataParallel as DDP\n"
    assert len(told(script(WRAP, "second = DDP(torch.nn.Linear(2, 2).cuda())", before=other))) == 1


def test_a_model_that_is_sharded_on_one_way_alone_is_not_saved_by_a_guess() -> None:
    lines = ("if wanted:", "    model = FSDP(model)", "torch.save(model.state_dict(), 'model.pt')")
    assert len(told(script(*lines))) == 1


def test_a_program_that_shards_by_choice_is_migrated_for_its_other_way() -> None:
    lines = (
        "if os.environ.get('SHARD'):",
        "    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP",
        "    model = FSDP(model)",
    )
    head = "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
    outcome = migrate(script(*lines).replace(head, "", 1))
    assert "torch_xla.device()" in outcome.data.decode()
    assert "XLA197" not in {f.code for f in open_findings(outcome)}


@pytest.mark.parametrize(
    ("lines", "advice"),
    [
        (("model = FSDP(model, None, ShardingStrategy.NO_SHARD)",), "wrap the model in DistributedData"),
        (("model = FSDP(model, None, ShardingStrategy.HYBRID_SHARD)",), "choose FULL_SHARD"),
        ((WRAP, "state = FSDP.optim_state_dict(model, made)"), "each replica saves and loads its own parts"),
        ((WRAP, "with FSDP.summon_full_params(model):", "    pass"), "torch_xla's wrapper gives whole"),
        (("fully_shard(model)",), "wrap the model in torch_xla.distributed.fsdp.XlaFullyShardedDataParallel"),
    ],
)
def test_what_to_write_instead_is_that_of_the_construct(lines: tuple[str, ...], advice: str) -> None:
    code = script(*lines, names="ShardingStrategy, fully_shard")
    (found,) = [f for f in open_findings(migrate(code)) if f.code == "XLA197"]
    assert (found.advice or "").startswith(advice)


def test_the_containers_of_sagemaker_are_told() -> None:
    [message] = told(script(WRAP), target="sagemaker")
    assert message == "the target's releases are not known to train with it"


def test_one_process_has_nothing_to_part() -> None:
    outcome = migrate(script(WRAP), settings=Settings(distributed=False))
    assert not outcome.edits
    assert [f.code for f in open_findings(outcome)] == ["XLA197"]


# ---- what is written


def migrated(code: str, target: str = "2.9") -> str:
    outcome = migrate(code, settings=Settings(target=target, black=None))
    assert not [f for f in open_findings(outcome) if f.code == "XLA197"], outcome.findings
    text = outcome.data.decode()
    again = migrate(text, settings=Settings(target=target, black=None))
    assert again.data.decode() == text
    return text


@pytest.mark.parametrize("target", ["2.9", "2.5", "2.1"])
def test_steps_of_a_sharded_model_stay_plain(target: str) -> None:
    text = migrated(script(WRAP, "model.clip_grad_norm_(1.0)"), target)
    assert "from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP\n" in text
    assert "torch.distributed.fsdp import Fully" not in text
    for line in ("    model = FSDP(model)\n", "    model.clip_grad_norm_(1.0)\n", "    optimizer.step()\n"):
        assert line in text
    assert "reduce_gradients" not in text
    assert "broadcast" not in text


def written(options: str, names: str = "", before: str = "") -> str:
    """The options of the wrapper that comes of a call with ``options``."""
    text = migrated(script(f"model = FSDP(model, {options})", names=names, before=before))
    [line] = [line for line in text.splitlines() if "FSDP(model" in line]
    return line.strip().removeprefix("model = FSDP(model").removeprefix(", ").removesuffix(")")


def test_options_of_speed_and_place_go() -> None:
    names = "BackwardPrefetch, CPUOffload, ShardingStrategy"
    options = (
        "sharding_strategy=ShardingStrategy.FULL_SHARD, device_id=torch.cuda.current_device(), "
        "backward_prefetch=BackwardPrefetch.BACKWARD_PRE, cpu_offload=CPUOffload(offload_params=False), "
        "limit_all_gathers=True, use_orig_params=True, forward_prefetch=True, sync_module_states=False, "
        "process_group=None, ignored_states=None"
    )
    assert written(options, names) == ""


def test_parameters_that_stay_whole_between_forward_and_backward() -> None:
    options = "sharding_strategy=ShardingStrategy.SHARD_GRAD_OP"
    assert written(options, "ShardingStrategy") == "reshard_after_forward=False"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("param_dtype=torch.bfloat16", "compute_dtype=torch.bfloat16, buffer_dtype=torch.float32"),
        ("torch.bfloat16, torch.bfloat16, torch.bfloat16", "compute_dtype=torch.bfloat16"),
        (
            "param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.bfloat16",
            "compute_dtype=torch.bfloat16, fp32_reduce_scatter=True",
        ),
        ("param_dtype=torch.float16", "compute_dtype=torch.bfloat16, buffer_dtype=torch.float32"),
        ("buffer_dtype=torch.bfloat16", "buffer_dtype=torch.bfloat16"),
        ("param_dtype=torch.float32, reduce_dtype=torch.bfloat16", ""),
        ("", ""),
    ],
)
def test_types_of_mixed_precision(given: str, expected: str) -> None:
    assert written(f"mixed_precision=MixedPrecision({given})", "MixedPrecision") == expected


def test_a_variable_that_only_held_an_option_goes() -> None:
    lines = ("half = MixedPrecision(torch.bfloat16)", "model = FSDP(model, mixed_precision=half)")
    text = migrated(script(*lines, names="MixedPrecision"))
    assert "half" not in text
    assert "compute_dtype=torch.bfloat16" in text


def test_policies_are_those_of_torch_xla() -> None:
    before = "import functools\nfrom torch.distributed.fsdp.wrap import transformer_auto_wrap_policy\n"
    lines = (
        "policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={torch.nn.ReLU})",
        "model = FSDP(model, None, None, None, policy)",
    )
    text = migrated(script(*lines, before=before))
    assert "from torch_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy\n" in text
    assert "from torch.distributed.fsdp.wrap" not in text
    assert "model = FSDP(model, auto_wrap_policy=policy)" in text


def test_a_policy_by_classes_is_that_of_transformers() -> None:
    before = "from torch.distributed.fsdp.wrap import ModuleWrapPolicy\n"
    options = "auto_wrap_policy=ModuleWrapPolicy({torch.nn.ReLU})"
    expected = "functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={torch.nn.ReLU})"
    assert written(options, before=before) == f"auto_wrap_policy={expected}"


def test_what_is_told_beside() -> None:
    code = script(
        "model = FSDP(model, cpu_offload=CPUOffload(offload_params=True))", names="CPUOffload"
    )
    assert "XLA156" in {f.code for f in open_findings(migrate(code))}


WHOLE = (
    'consolidate_sharded_state_dicts(xm.mesh_reduce("model_state", model.state_dict(), list), '
    "model.get_shard_metadata())"
)


def test_whole_parameters_are_put_together_where_they_are_saved() -> None:
    lines = (
        WRAP,
        "config = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)",
        "with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, config):",
        "    state = model.state_dict()",
        "if dist.get_rank() == 0:",
        "    torch.save(state, 'model.pt')",
    )
    text = migrated(script(*lines, names="FullStateDictConfig, StateDictType"))
    assert f"    state = {WHOLE}\n    xm.save(state, 'model.pt')\n" in text
    assert "config" not in text


def test_a_state_without_a_context_was_whole_as_well() -> None:
    assert f"state = {WHOLE}\n" in migrated(script(WRAP, "state = model.state_dict()"))


def test_a_setting_of_the_state_goes() -> None:
    line = "FSDP.set_state_dict_type(model, StateDictType.FULL_STATE_DICT)"
    text = migrated(script(WRAP, line, "print(model.state_dict())", names="StateDictType"))
    assert "StateDictType" not in text
    assert WHOLE in text


def test_what_is_loaded_before_the_model_is_wrapped_stays() -> None:
    line = 'model.load_state_dict(torch.load("model.pt", map_location="cpu"))'
    assert f"    {line}\n" in migrated(script(line, WRAP).replace("Linear(4, 2).cuda()", "Linear(4, 2)"))


@pytest.mark.parametrize(
    "line",
    [
        "model.load_state_dict(torch.load('model.pt'))",
        "model.apply(fill)",
        "torch.nn.init.zeros_(model.bias)",
        "torch.set_default_device('cuda')",
        "model = torch.nn.Linear(4, 2, device='cuda')",
    ],
)
def test_weights_that_are_written_on_the_device_leave_the_program_whole(line: str) -> None:
    [message] = told(script(line, WRAP))
    assert message == "weights may be written on the device, which the new wrapper does not see"


def test_the_class_is_the_new_one_where_it_is_only_named() -> None:
    code = script(WRAP, "print(isinstance(model, FSDP))", before="\n\ndef shown(model: FSDP):\n    pass\n")
    text = migrated(code)
    assert "isinstance(model, FSDP)" in text
    assert "torch.distributed.fsdp" not in text


def test_a_name_in_full_becomes_the_short_one() -> None:
    code = script(WRAP).replace(" as FSDP", "").replace("FSDP(", "FullyShardedDataParallel(")
    assert "model = FSDP(model)" in migrated(code)


def test_accumulation_holds_back_the_reduction_as_before() -> None:
    lines = ("with model.no_sync():", "    model(torch.randn(2, 4).cuda()).sum().backward()")
    text = migrated(script(WRAP, *lines))
    assert "    with model.no_sync():\n" in text


def test_a_scaler_of_sharded_gradients_goes_with_the_others() -> None:
    before = "from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler\n"
    code = script(WRAP, "scaler = ShardedGradScaler()", before=before)
    code = code.replace("loss.backward()", "scaler.scale(loss).backward()")
    code = code.replace("optimizer.step()", "scaler.step(optimizer)\n    scaler.update()")
    text = migrated(code)
    assert "caler" not in text
    assert "    loss.backward()\n    optimizer.step()\n" in text


def test_alone_the_pass_writes_nothing_in_a_script_of_one_process() -> None:
    code = "import torch\nmodel = torch.nn.Linear(2, 2).cuda()\n"
    assert run_only(code, "sharded_models") == code


def test_an_empty_package_beside_a_program_that_is_left() -> None:
    code = script("model = FSDP(model, process_group=group)")
    plots = "import torch\n\n\ndef plot(t):\n    return t.cuda()\n"
    files = {"train.py": "from util import plots\n" + code, "util/__init__.py": "", "util/plots.py": plots}
    outcomes = migrate_program({path: text.encode() for path, text in files.items()})
    assert [f.code for f in outcomes["util/__init__.py"].findings] == []
    assert "XLA197" in {f.code for f in outcomes["train.py"].findings}
