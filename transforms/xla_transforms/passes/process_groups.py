"""Process groups: training in several processes is not converted, which the reader is told.

Source: pytorch/xla v2.9.0, the guide "How to do DistributedDataParallel": the backend is ``xla``, processes
are started by ``torch_xla.launch``, and gradients are reduced by ``xm.optimizer_step``.
"""

from __future__ import annotations

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.roles import Kind
from xla_transforms.statements import live_calls, migrating
from xla_transforms.tree import method, receiver

LEFT = Rule(
    "XLA131",
    "process-group-left",
    "Training in several processes is left as it is: only what each process does is migrated.",
    "Process groups on nccl need CUDA; torch_xla.launch starts one process for each device, and "
    "xm.optimizer_step reduces the gradients (pytorch/xla v2.9.0).",
    Severity.WARNING,
)
RULES = (LEFT,)

_ADVICE = {
    "torch.distributed.init_process_group": "write backend='xla' and init_method='xla://'",
    "torch.nn.parallel.DistributedDataParallel": "leave it out: xm.optimizer_step reduces gradients",
    "torch.multiprocessing.spawn": "write torch_xla.launch(function, args=...)",
    "torch.multiprocessing.start_processes": "write torch_xla.launch(function, args=...)",
}


def run(context: Context) -> None:
    if not migrating(context) or context.already_xla:
        return
    for call, path in live_calls(context):
        if path in _ADVICE:
            name = path.rpartition(".")[2]
            context.plan.report(LEFT, call, f"{name} is for several processes and is left", _ADVICE[path])
        elif method(call) == "share_memory" and context.roles.may_be(receiver(call), Kind.MODEL):
            advice = "let each process have a model of its own, and reduce the gradients"
            context.plan.report(LEFT, call, "processes cannot share what is on an XLA device", advice)
