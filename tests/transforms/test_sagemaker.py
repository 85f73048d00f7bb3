"""Scripts that start jobs on SageMaker, and those that the jobs run: completed for its containers."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import check_noop, check_transformed, findings, migrate

from xla_transforms import context as context_module
from xla_transforms import pipeline
from xla_transforms.engine import migrate_bytes, migrate_program
from xla_transforms.settings import Settings
from xla_transforms.targets import target
from xla_transforms.targets.instances import GPUS

GOLDEN = Path(__file__).parents[2] / "golden" / "sagemaker_huggingface_estimator"
JOBS = ("sagemaker_jobs",)
NUMBERS = ("gpu_numbers",)
CONFIG = "from sagemaker.{0} import TrainingCompilerConfig\n"


@pytest.fixture
def sagemaker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The containers of SageMaker as the target of every run."""
    monkeypatch.setattr(context_module, "target", lambda name: target("sagemaker"))


containers = pytest.mark.usefixtures("sagemaker", "unformatted")


def job(
    arguments: str = "", *, instance: str = "ml.p3.2xlarge", version: str = "1.11.0", config: str = ""
) -> str:
    head = "from sagemaker.huggingface import HuggingFace\n" + config
    given = f'entry_point="t.py", instance_type="{instance}", instance_count=1, pytorch_version="{version}"'
    return f"{head}\nestimator = HuggingFace({given}{arguments})\n"


def compiled(arguments: str, **given: str) -> tuple[str, str]:
    """A job and the same one with the compiler, which is added as the last argument."""
    config = CONFIG.format("huggingface")
    after = job(arguments + ", compiler_config=TrainingCompilerConfig()", config=config, **given)
    return job(arguments, **given), after


def plain(code: str, *passes: str) -> list[tuple[str, str]]:
    """Code and severity of the findings about a job that is not changed, one that speaks of the run aside."""
    outcome = check_noop(code, *passes)
    return [(f.code, f.severity.label) for f in outcome.findings if f.code != "XLA934"]


@pytest.fixture
def unformatted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The long lines of these tests stay lines."""
    monkeypatch.setattr(pipeline, "format_changed", lambda old, new, settings: new)


# ---- left alone


def test_for_other_targets_a_job_is_left_alone_and_mentioned() -> None:
    assert plain(job(), *JOBS, *NUMBERS) == [("XLA935", "info")]


@containers
def test_a_class_of_another_package_is_no_job() -> None:
    code = job().replace("sagemaker.huggingface", "ours")
    assert plain(code, *JOBS, *NUMBERS) == []


@containers
@pytest.mark.parametrize(
    "code",
    [
        job(', image_uri="1.dkr.ecr/x:y"'),
        job(', instance_groups=[group]'),
        job(instance="ml.p5.48xlarge"),
        job(instance="ml.m5.large"),
        job(version="1.13.1"),
        job(version="2.1.0"),
        job().replace('"1.11.0"', "version"),
    ],
)
def test_what_the_estimator_would_refuse_is_an_error(code: str) -> None:
    assert plain(code, *JOBS) == [("XLA931", "error")]


@containers
def test_arguments_that_come_by_two_stars_are_reported() -> None:
    assert plain(job(", **given"), *JOBS, *NUMBERS) == [("XLA931", "error")]


GENERIC = """\
from sagemaker import image_uris
from sagemaker.estimator import Estimator
uri = {0}
Estimator(image_uri=uri, role=role, instance_count=1, instance_type="ml.p3.8xlarge")
"""
TRCOMP = '"1.dkr.ecr/huggingface-pytorch-trcomp-training:1.11.0-gpu"'


@containers
def test_an_estimator_of_another_library_is_no_job() -> None:
    assert plain(GENERIC.format('image_uris.retrieve("xgboost", region)'), *JOBS, *NUMBERS) == []


@containers
@pytest.mark.parametrize("uri", [TRCOMP, 'image_uris.retrieve(framework="pytorch", version="1.13")'])
def test_an_estimator_that_is_given_a_container_switches_nothing_on(uri: str) -> None:
    assert plain(GENERIC.format(uri), *JOBS) == [("XLA931", "error")]


@containers
def test_an_estimator_with_the_container_of_the_compiler_is_told_of_its_gpus() -> None:
    after = GENERIC.replace('8xlarge")', '8xlarge", environment={{"GPU_NUM_DEVICES": "4"}})').format(TRCOMP)
    check_transformed(GENERIC.format(TRCOMP), after, *JOBS, *NUMBERS)


def test_for_other_targets_an_estimator_with_a_container_is_mentioned() -> None:
    assert plain(GENERIC.format(TRCOMP), *JOBS, *NUMBERS) == [("XLA935", "info")]


@containers
def test_a_job_with_all_of_it_stays() -> None:
    given = ', distribution={"pytorchxla": {"enabled": True}}, environment={"GPU_NUM_DEVICES": "8"}'
    _, code = compiled(given, instance="ml.p3.16xlarge")
    assert plain(code, *JOBS, *NUMBERS) == []


@containers
@pytest.mark.parametrize("module", ["modules.train", "train"])
def test_model_trainer_cannot_switch_the_compiler_on(module: str) -> None:
    head = f"from sagemaker.{module} import ModelTrainer\n"
    assert plain(f"{head}ModelTrainer(compute=c)\n", *JOBS) == [("XLA931", "error")]
    wrong = f"{head}ModelTrainer(compute=c, distribution={{'torchxla': {{'enabled': True}}}})\n"
    outcome = check_noop(wrong, *JOBS)
    assert "takes no distribution" in outcome.findings[-1].message


def test_the_golden_script_becomes_the_recorded_one() -> None:
    native, expected = (GOLDEN / name for name in ("native.py", "expected_sagemaker.py"))
    settings = Settings(target="sagemaker")
    outcome = migrate_bytes(native.read_bytes(), settings, "native.py")
    assert outcome.data == expected.read_bytes()
    assert migrate_bytes(outcome.data, settings, "native.py").data == outcome.data
    assert {c.code for c in outcome.changes} == {"XLA931", "XLA932", "XLA933"}


# ---- the compiler and the distribution


@containers
def test_the_compiler_is_switched_on() -> None:
    check_transformed(*compiled(""), *JOBS, rules={"XLA931"})


@containers
def test_the_compiler_in_the_estimator_for_pytorch() -> None:
    def written(arguments: str, config: str = "") -> str:
        given = 'entry_point="t.py", instance_type=KIND, instance_count=1, framework_version="1.13"'
        head = "from sagemaker.pytorch import PyTorch\n" + config
        return f'{head}\nKIND = "ml.g5.xlarge"\nPyTorch({given}{arguments})\n'

    after = written(", compiler_config=TrainingCompilerConfig()", CONFIG.format("pytorch"))
    check_transformed(written(""), after, *JOBS)


@containers
def test_the_compiler_of_a_second_estimator_has_a_name_of_its_own() -> None:
    second = 'PyTorch(entry_point="t.py", instance_type="ml.g5.xlarge", instance_count=1, '
    second += 'framework_version="1.13")\n'
    written = migrate("from sagemaker.pytorch import PyTorch\n" + compiled("")[1] + second, *JOBS).code
    assert "from sagemaker.pytorch import TrainingCompilerConfig as xla_TrainingCompilerConfig\n" in written
    assert "compiler_config=xla_TrainingCompilerConfig())" in written


@containers
def test_a_job_on_several_gpus_is_distributed() -> None:
    before, _ = compiled("", instance="ml.p3.8xlarge")
    more = ', compiler_config=TrainingCompilerConfig(), distribution={"pytorchxla": {"enabled": True}}'
    after = job(more, instance="ml.p3.8xlarge", config=CONFIG.format("huggingface"))
    outcome = check_transformed(before, after, *JOBS, rules={"XLA931", "XLA932"})
    assert "_mp_fn" in outcome.findings[-1].message


@containers
@pytest.mark.parametrize(
    "given",
    [
        '{"torchxla": {"enabled": True}}',  # as a translation of the guide spells it
        '{"smdistributed": {"dataparallel": {"enabled": True}}}',
        '{"torch_distributed": {"enabled": True}}',
    ],
)
def test_another_distribution_gives_way(given: str) -> None:
    before, after = compiled(f", distribution={given}", instance="ml.p3.8xlarge")
    check_transformed(before, after.replace(given, '{"pytorchxla": {"enabled": True}}'), *JOBS)


@containers
def test_a_distribution_that_is_not_known_is_reported() -> None:
    before, after = compiled(", distribution=chosen()", instance="ml.p3.8xlarge")
    outcome = check_transformed(before, after, *JOBS)
    assert ("XLA932", False) in [(f.code, f.fixed) for f in outcome.findings]


@containers
def test_an_older_pytorch_has_no_pytorchxla() -> None:
    given = {"instance": "ml.p3.8xlarge", "version": "1.10.2"}
    before, after = compiled(', distribution={"mpi": {"enabled": True}}', **given)
    outcome = check_transformed(before, after, *JOBS)
    assert ("XLA932", False) in [(f.code, f.fixed) for f in outcome.findings]


@containers
def test_that_the_compiler_is_closed_is_said_once_a_run() -> None:
    files = {"a.py": job().encode(), "b.py": job().encode(), "t.py": b"import torch\nx = x.cuda()\n"}
    found = [f.code for o in migrate_program(files).values() for f in o.findings]
    assert found.count("XLA934") == 1


# ---- the number of GPUs


def test_the_table_of_instances() -> None:
    assert GPUS["ml.p3.8xlarge"] == 4
    assert GPUS["ml.g5.12xlarge"] == 4
    assert GPUS["ml.g4dn.16xlarge"] == 1
    assert GPUS["ml.p4d.24xlarge"] == 8
    assert "ml.c5.xlarge" not in GPUS


@containers
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ', environment={"GPU_NUM_DEVICES": "4"}'),
        (", environment={}", ', environment={"GPU_NUM_DEVICES": "4"}'),
        (', environment={"A": "1"}', ', environment={"A": "1", "GPU_NUM_DEVICES": "4"}'),
        (', environment={"GPU_NUM_DEVICES": 4}', ', environment={"GPU_NUM_DEVICES": "4"}'),
    ],
)
def test_the_number_is_given_by_the_environment(before: str, after: str) -> None:
    pair = (job(text, instance="ml.p3.8xlarge") for text in (before, after))
    check_transformed(*pair, *NUMBERS, rules={"XLA933"})


@containers
def test_an_environment_that_a_variable_holds() -> None:
    def written(env: str) -> str:
        return f"env = {env}\n" + job(", environment=env", instance="ml.p3.16xlarge")

    check_transformed(written('{"A": "1"}'), written('{"A": "1", "GPU_NUM_DEVICES": "8"}'), *NUMBERS)


@containers
def test_the_machines_of_model_trainer() -> None:
    head = "from sagemaker.modules.configs import Compute\nfrom sagemaker.modules.train import ModelTrainer\n"
    code = head + 'compute = Compute(instance_type="ml.p3.8xlarge")\nModelTrainer(compute=compute{})\n'
    after = code.format(', environment={"GPU_NUM_DEVICES": "4"}')
    check_transformed(code.format(""), after, *NUMBERS)


@containers
@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (', environment={"GPU_NUM_DEVICES": "4"}', 0),
        (', environment={"GPU_NUM_DEVICES": "8"}', 1),  # the machine has four
        (', hyperparameters={"n_gpus": 4}', 0),
        (', hyperparameters={"n_gpus": 2}', 1),
        (", environment=environment()", 1),
    ],
)
def test_what_is_given_is_compared(arguments: str, lines: int) -> None:
    found = plain(job(arguments, instance="ml.p3.8xlarge"), *NUMBERS)
    assert found == [("XLA933", "warning")] * lines


@containers
def test_a_machine_that_is_not_known_is_reported() -> None:
    assert plain(job(instance="ml.p3.99xlarge"), *NUMBERS) == [("XLA933", "warning")]


@containers
@pytest.mark.parametrize("code", [job(version="1.13.1"), job(instance="ml.p5.48xlarge")])
def test_a_job_that_stays_without_the_compiler_stays_whole(code: str) -> None:
    check_noop(code, *JOBS, *NUMBERS)


@containers
def test_torchrun_in_model_trainer_is_reported() -> None:
    code = "from sagemaker.modules.train import ModelTrainer\nModelTrainer(compute=c{})\n"
    assert plain(code.format(", distributed=Torchrun()"), *JOBS)[1:] == [("XLA932", "warning")]
    assert len(plain(code.format(", distributed=None"), *JOBS)) == 1


PARSER = """\
import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--n_gpus", type={}, default={})
args, _ = parser.parse_known_args()
{}net = torch.nn.Linear(2, 2).cuda()
"""
COPY = 'os.environ["GPU_NUM_DEVICES"] = {}\n'


@containers
def test_the_number_is_copied_from_the_option() -> None:
    before, after = (PARSER.format("str", 'os.environ["SM_NUM_GPUS"]', line) for line in (
        "", COPY.format("str(args.n_gpus)")))  # fmt: skip
    check_transformed(before, after, *NUMBERS)


@containers
def test_an_option_that_is_copied_stays() -> None:
    code = PARSER.format("str", 'os.environ["SM_NUM_GPUS"]', COPY.format("args.n_gpus"))
    assert plain(code, *NUMBERS) == []


@containers
def test_an_option_that_sagemaker_does_not_fill_in_is_the_users_own() -> None:
    assert plain(PARSER.format("int", "1", ""), *NUMBERS) == []


@containers
@pytest.mark.parametrize(("value", "text"), [("4", '"4"'), ("len(gpus)", "str(len(gpus))")])
def test_an_integer_in_the_environment_becomes_a_string(value: str, text: str) -> None:
    code = "import os\n" + COPY
    check_transformed(code.format(value), code.format(text), *NUMBERS)
    assert findings(code.format('"4"'), *NUMBERS) == []


@containers
def test_an_integer_option_in_the_environment() -> None:
    before, after = (PARSER.format("int", "1", COPY.format(value)) for value in (
        "args.n_gpus", "str(args.n_gpus)"))  # fmt: skip
    check_transformed(before, after, *NUMBERS)


def test_other_targets_ignore_the_number() -> None:
    outcome = migrate("import os\nos.environ.setdefault('GPU_NUM_DEVICES', '4')\n", *NUMBERS)
    assert [(f.code, f.severity.label) for f in outcome.findings] == [("XLA933", "info")]


# ---- GPUs that are counted for the variable

COUNTED = 'import os\nimport torch\n{}os.environ["GPU_NUM_DEVICES"] = {}\nmodel = nn.Linear(1, 1).cuda()\n'
COUNT = "torch.cuda.device_count()"
TOLD = 'os.environ["SM_NUM_GPUS"]'
COUNTING = ("gpu_numbers", "cuda_utilities")


@containers
@pytest.mark.parametrize("value", [f"str({COUNT})", f'f"{{{COUNT}}}"', COUNT])
def test_the_runtime_is_not_asked_for_what_it_starts_with(value: str) -> None:
    check_transformed(COUNTED.format("", value), COUNTED.format("", TOLD), *COUNTING, rules={"XLA933"})


@containers
def test_a_count_that_has_a_name_is_that_of_the_machine() -> None:
    before, after = f"n = {COUNT}\n", f"n = int({TOLD})\n"
    check_transformed(COUNTED.format(before, "str(n)"), COUNTED.format(after, TOLD), *COUNTING)


@pytest.mark.parametrize(("target", "severity"), [("2.1", "warning"), ("2.5", "warning"), ("2.9", "info")])
def test_elsewhere_a_count_stays_and_is_told(target: str, severity: str) -> None:
    outcome = check_noop(COUNTED.format("", f"str({COUNT})"), *COUNTING, settings=Settings(target=target))
    assert [(f.code, f.severity.label) for f in outcome.findings] == [("XLA933", severity)]
