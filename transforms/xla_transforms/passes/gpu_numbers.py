"""GPU_NUM_DEVICES, the number of GPUs of a machine, which PyTorch/XLA up to 2.0 cannot start without.

It is given in one of three ways: by the estimator's ``environment``, as a hyperparameter that the script
copies, or in the script. Sources: SageMaker's troubleshooting guide ("Missing XLA configuration", with an
integer that os.environ refuses); pytorch/xla v1.13 ``third_party/xla_client/computation_client.cc``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.jobs import Job, constant, entry, jobs
from xla_transforms.roles import Kind
from xla_transforms.roles.ranks import COUNTS
from xla_transforms.statements import sole_target
from xla_transforms.tree import destination, has_star, method, number_value, string_value, value_of, walk

NUMBER = Rule(
    "XLA933",
    "gpu-num-devices",
    "GPU_NUM_DEVICES holds the number of GPUs of a machine, as a string.",
    "PyTorch/XLA up to 2.0 fails with 'Missing XLA configuration' without it, os.environ takes only strings, "
    "and release 2.9 ignores it (SageMaker's troubleshooting guide; pytorch/xla v2.9.0, runtime.py).",
    Severity.WARNING,
)
RULES = (NUMBER,)

_NAME = "GPU_NUM_DEVICES"
_OPTIONS = ("n_gpus", "num_gpus")


def run(context: Context) -> None:
    if context.target.launcher:
        for job in jobs(context.roles, context.index):
            if not has_star(job.call) or job.value("environment") is not None:
                _job(context, job)
        _copied(context)
    for place, value in _given(context):
        _in_script(context, place, value)


def _job(context: Context, job: Job) -> None:
    mapping, gpus = job.mapping("environment"), job.gpus
    held = entry(mapping, _NAME) if mapping is not None else None
    if held is not None:
        _held(context, job, held)
        return
    if _as_hyperparameter(context, job) or job.refused:  # the job stays without the compiler, whole
        return
    unknown = job.value("environment") is not None and mapping is None
    if gpus is None or unknown or (mapping is not None and context.roles.index(mapping) is not context.index):
        what = "how many GPUs its machines have" if gpus is None else "what its environment holds"
        advice = f'environment={{"{_NAME}": "<GPUs of one machine>"}}'
        context.plan.report(NUMBER, job.call, f"{what} is not known here", advice)
        return
    text = f'"{_NAME}": "{gpus}"'
    change = context.plan.change(NUMBER, job.call, f"{job.instance} has {gpus} GPU{'s' * (gpus > 1)}")
    if mapping is not None:
        change.append(mapping, mapping.elements, text)
    else:
        change.append(job.call, job.call.args, f"environment={{{text}}}")


def _held(context: Context, job: Job, held: cst.DictElement) -> None:
    number = number_value(held.value)
    if number is not None and context.plan.free(held.value):
        change = context.plan.change(NUMBER, held.value, "the environment takes strings alone")
        change.replace(held.value, f'"{number}"')
    told = str(number) if number is not None else constant(context.roles, held.value)
    _compare(context, job, held, told)


def _as_hyperparameter(context: Context, job: Job) -> bool:
    """Whether the number is handed over as a hyperparameter, which the script has to copy."""
    mapping = job.mapping("hyperparameters")
    found = [e for name in _OPTIONS if mapping is not None and (e := entry(mapping, name)) is not None]
    for held in found:
        _compare(context, job, held, context.index.source.code(held.value).strip("\"'"))
    return bool(found)


def _compare(context: Context, job: Job, held: cst.DictElement, told: str) -> None:
    if told.isdigit() and job.gpus is not None and int(told) != job.gpus:
        message = f"{job.instance} has {job.gpus} GPUs, not {told}"
        context.plan.report(NUMBER, held, message, f"write {job.gpus}")


def _given(context: Context) -> list[tuple[cst.CSTNode, cst.BaseExpression]]:
    """Every place that puts the variable into ``os.environ``, with the value."""
    if _NAME not in context.index.source.text:
        return []
    found: list[tuple[cst.CSTNode, cst.BaseExpression]] = []
    for assign in context.index.all(cst.Assign):
        target = sole_target(assign)
        assert isinstance(assign, cst.Assign)
        if isinstance(target, cst.Subscript) and _is_place(context, target):
            found.append((assign, assign.value))
    for call in context.index.all(cst.Call):
        if isinstance(call, cst.Call) and method(call) == "setdefault" and len(call.args) == 2:
            holder = call.func.value if isinstance(call.func, cst.Attribute) else None
            if context.roles.path(holder) == "os.environ" and string_value(call.args[0].value) == _NAME:
                found.append((call, call.args[1].value))
    return found


def _is_place(context: Context, target: cst.Subscript) -> bool:
    index = target.slice[0].slice if len(target.slice) == 1 else None
    key = index.value if isinstance(index, cst.Index) else None
    return context.roles.path(target.value) == "os.environ" and string_value(key) == _NAME


def _in_script(context: Context, place: cst.CSTNode, value: cst.BaseExpression) -> None:
    number = number_value(value)
    if counts := _counts(context, value):
        _counted(context, place, value, counts)
    elif (number is not None or context.roles.is_a(value, Kind.NUMBER)) and context.plan.free(value):
        change = context.plan.change(NUMBER, value, "os.environ takes strings alone")
        if number is not None:
            change.replace(value, f'"{number}"')
        else:
            change.wrap(value, "str({0})")
    if context.target.releases[0] >= (2, 9):
        message = f"torch_xla {context.target.name} ignores {_NAME}"
        advice = "PJRT_DEVICE (CPU, TPU) chooses the device, TPU_NUM_DEVICES or CPU_NUM_DEVICES how many"
        context.plan.report(NUMBER, place, message, advice, severity=Severity.INFO)


def _counts(context: Context, value: cst.BaseExpression) -> list[cst.Call]:
    """Where GPUs are counted for a value, be it by way of a variable."""
    names = [node for node in walk(value) if isinstance(node, cst.Name)]
    bindings = (b for name in names for b in context.roles.bindings(name) if not b.path)
    bound = [binding.value for binding in bindings if binding.value is not None]
    found = (node for part in (value, *bound) for node in walk(part) if isinstance(node, cst.Call))
    return [call for call in found if context.roles.path(call.func) in COUNTS]


def _counted(
    context: Context, place: cst.CSTNode, value: cst.BaseExpression, calls: list[cst.Call]
) -> None:
    """GPUs are counted for the variable: the runtime reads it as it starts, and cannot be asked for them."""
    change = context.plan.change(NUMBER, place, "SageMaker tells how many GPUs there are")
    apart = [call for call in calls if not context.index.within(call, value) and context.plan.free(call)]
    if context.target.launcher:
        told = f'{change.use("os")}.environ["SM_NUM_GPUS"]'
        change.replace(value, told)
        for call in apart:
            change.replace(call, f"int({told})").close(call)
    elif context.target.releases[0] < (2, 9):
        message = "the XLA runtime reads this as it starts, and cannot be asked for it"
        context.plan.report(NUMBER, place, message, "write the number of GPUs of one machine, as a string")
    change.close(value)


def _copied(context: Context) -> None:
    """Copy an option with the number of GPUs, which SageMaker fills in, into the environment."""
    calls = context.program.calls
    if _NAME in context.index.source.text or not context.program.mentions("SM_NUM_GPUS"):
        return
    options = [c for c in calls.get("add_argument", ()) if destination(c) in _OPTIONS]
    ours = [c for c in options if "SM_NUM_GPUS" in context.index.source.code(value_of(c, "default") or c)]
    for parse in (*calls.get("parse_args", ()), *calls.get("parse_known_args", ())):
        assign = context.index.parent(parse)
        name = _arguments_name(assign)
        if len(ours) == 1 and name and context.roles.index(parse) is context.index:
            statement = context.index.statement_of(parse)
            assert statement is not None
            change = context.plan.change(NUMBER, ours[0], "PyTorch/XLA has to know how many GPUs there are")
            option = f"str({name}.{destination(ours[0])})"
            change.after(statement, f'{change.use("os")}.environ["{_NAME}"] = {option}')


def _arguments_name(assign: cst.CSTNode | None) -> str:
    """``args`` for ``args = parser.parse_args()`` and for ``args, rest = parser.parse_known_args()``."""
    target = sole_target(assign)
    if isinstance(target, cst.Tuple) and target.elements:
        target = target.elements[0].value
    return target.value if isinstance(target, cst.Name) else ""
