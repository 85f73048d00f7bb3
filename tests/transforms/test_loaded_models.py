"""Models that transformers loads onto GPUs, quantised for them, or in float16."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, migrate

from xla_transforms.settings import Settings

PASS = ("loaded_models",)
HEAD = "import torch\nfrom transformers import AutoModel, BitsAndBytesConfig, Trainer\n"
TRAINED = "model(x).loss.backward()\n"


def code(told: str, trained: str = TRAINED) -> str:
    return f'{HEAD}model = AutoModel.from_pretrained("m", {told})\n{trained}'


@pytest.mark.parametrize(
    "told",
    ['device_map="cpu"', 'device_map={"": "cpu"}', "device_map=None", "load_in_8bit=False",
     "dtype=torch.bfloat16", 'attn_implementation="sdpa"', "quantization_config=None", 'torch_dtype="auto"'],
)  # fmt: skip
def test_what_needs_no_gpu_is_not_named(told: str) -> None:
    assert check_noop(code(told), *PASS).findings == ()


def test_a_model_that_is_not_trained_may_be_loaded_as_it_is() -> None:
    assert check_noop(code('device_map="auto"', "print(model(x))\n"), *PASS).findings == ()


def test_a_class_of_another_package_may_take_what_it_likes() -> None:
    ours = code('device_map="auto", dtype=torch.float16').replace("from transformers", "from ours")
    assert check_noop(ours, *PASS).findings == ()


@pytest.mark.parametrize(
    "told",
    ['device_map="auto"', 'device_map={"": 0}', 'device_map="cuda:0"', "device_map=args.map",
     "load_in_4bit=True", "quantization_config=BitsAndBytesConfig(load_in_4bit=True)",
     'attn_implementation="flash_attention_2"'],
)  # fmt: skip
def test_what_is_for_gpus_is_an_error(told: str) -> None:
    outcome = check_noop(code(told))
    assert [(f.code, f.severity.label) for f in outcome.findings] == [("XLA198", "error")]


@pytest.mark.parametrize("told", ['device_map={"": 0}', 'device_map={"": place}', 'device_map="cuda:0"'])
@pytest.mark.parametrize("given", ["model", "model=model", "get_peft_model(model, config)"])
def test_a_device_map_of_one_device_goes_where_trainer_places_the_model(told: str, given: str) -> None:
    head = f"from peft import get_peft_model\nplace = torch.cuda.current_device()\n{HEAD}"
    before = f'{head}model = AutoModel.from_pretrained("m", {told}, cache_dir="c")\nTrainer({given})\n'
    check_transformed(before, before.replace(f"{told}, ", ""), *PASS)


def test_nothing_is_imported_for_a_device_map_that_goes() -> None:
    told = 'device_map={"": torch.cuda.current_device()}'
    assert "torch_xla" not in migrate(code(told, "Trainer(model)\n"), *PASS, "cuda_utilities").data.decode()


@pytest.mark.parametrize(
    "told",
    ['device_map="auto"', 'device_map={"a": 0, "b": 1}', 'device_map={"": 0}, load_in_4bit=True',
     'device_map={"": 0}, quantization_config=BitsAndBytesConfig(load_in_4bit=True)'],
)  # fmt: skip
def test_a_device_map_that_says_more_stays(told: str) -> None:
    check_noop(code(told, "Trainer(model)\n"), *PASS)


def test_a_device_map_of_a_model_that_trainer_is_not_given_stays() -> None:
    outcome = check_noop(code('device_map={"": 0}', "Trainer(other)\n"), *PASS)
    assert [f.code for f in outcome.findings] == ["XLA198"]


@pytest.mark.parametrize(
    ("trained", "who"), [(TRAINED, "move the model"), ("Trainer(model)\n", "Trainer places")]
)
def test_who_places_the_model_instead(trained: str, who: str) -> None:
    outcome = migrate(code('device_map="auto"', trained), *PASS)
    assert who in outcome.findings[0].advice


@pytest.mark.parametrize(
    "told", ["torch_dtype=torch.float16", 'dtype="float16"', "dtype=torch.half", "dtype=kind"]
)
def test_weights_in_float16_are_named(told: str) -> None:
    outcome = check_noop("import torch\nkind = torch.float16\n" + code(told))
    assert [f.code for f in outcome.findings] == ["XLA199"]


def test_weights_in_float16_are_fine_where_the_target_computes_in_it() -> None:
    outcome = migrate(code("torch_dtype=torch.float16"), *PASS, settings=Settings(target="sagemaker"))
    assert outcome.findings == ()
