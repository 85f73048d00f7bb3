"""Why migrated training fails, learns badly or is slow: the causes, and the rules that find them in code.

Sources: SageMaker's guide "Training Compiler troubleshooting" and its tips and pitfalls, with the names that
exist (``xm.add_step_closure``, ``distribution={"pytorchxla": ...}``, ``GPU_NUM_DEVICES`` as a string);
pytorch/xla v1.13 to v2.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xla_transforms.findings import Change, Finding


@dataclass(frozen=True)
class Cause:
    """One cause: what is wrong, what to write, and the codes of the rules that see it."""

    what: str
    remedy: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Topic:
    """A symptom: where to begin, and its causes by where they act."""

    name: str
    title: str
    begin: str
    causes: Mapping[str, tuple[Cause, ...]]

    @property
    def all(self) -> list[Cause]:
        return [cause for causes in self.causes.values() for cause in causes]


_ONE_DEVICE = (
    Cause(
        "Nothing ends the step: the graph grows over iterations, and values are printed or saved before they "
        "are computed.",
        "torch_xla.sync() once an iteration, behind the optimizer's step and before values are read "
        "(xm.mark_step() up to release 2.4); MpDeviceLoader does it when the next batch is asked for. "
        "xm.optimizer_step alone does not end the step.",
        ("XLA501", "XLA503", "XLA601", "XLA602", "XLA703"),
    ),
    Cause(
        "The optimizer was built before model.to(device): on XLA the move makes new parameters, and the "
        "optimizer trains the old ones without an error.",
        "move the model first.",
        ("XLA411", "XLA412", "XLA413", "XLA928"),
    ),
    Cause(
        "Weights that were tied are two tensors after model.to(device).",
        "tie them again behind the move, before the optimizer is built: model.tie_weights().",
        ("XLA421", "XLA422", "XLA423"),
    ),
    Cause(
        "Mixed precision runs in the wrong order.",
        "scale the loss and run backward; unscale, then clip; step; update the scale; end the step. Without "
        "a scaler (bfloat16): backward, clip, step, end the step.",
        ("XLA311", "XLA312", "XLA314", "XLA315"),
    ),
    Cause(
        "float16 became bfloat16: eight bits of mantissa instead of eleven, the range of float32.",
        "compare the native run in bfloat16; losses differ in the third digit.",
        ("XLA301", "XLA302", "XLA303", "XLA925"),
    ),
    Cause(
        "XLA_USE_BF16 or XLA_DOWNCAST_BF16 is set, which rounds every float32.",
        "unset it (xla-migrate doctor tells).",
    ),
    Cause(
        "Batch size and learning rate were tuned for another memory.",
        "run both sides with the same hyper-parameters first; then tune the batch size, then the learning "
        "rate.",
    ),
    Cause(
        "An epoch is shorter than it seems: ParallelLoader(...).per_device_loader(device) gives its batches "
        "once, and from release 2.6 on an exception in a data set under a device loader ends the epoch "
        "without an error in the loop.",
        "use MpDeviceLoader, count the batches of an epoch, and read the whole of stderr.",
    ),
)
_SEVERAL_DEVICES = (
    Cause(
        "The replicas begin with different weights: DistributedDataParallel's broadcast is gone.",
        "the same torch.manual_seed on all replicas before the model is built, or "
        "xm.broadcast_master_param(model) (release 2.1 or newer).",
        ("XLA131", "XLA222", "XLA228"),
    ),
    Cause(
        "Every replica trains alone: gradients are not reduced.",
        "xm.optimizer_step(optimizer) reduces and steps. With a scaler or clipping: "
        "xm.reduce_gradients(optimizer) behind backward, then unscale, clip and step; with a scaler of the "
        "older releases xm.all_reduce('sum', xm._fetch_gradients(optimizer), "
        "scale=1.0 / xm.xrt_world_size()).",
        ("XLA611", "XLA612", "XLA613", "XLA614"),
    ),
    Cause(
        "Gradients are reduced in every micro-step, or behind the clipping.",
        "once, at the end of an accumulation, before unscaling and clipping.",
        ("XLA612",),
    ),
    Cause(
        "Every replica reads the whole data set: MpDeviceLoader does not share it out.",
        "torch.utils.data.distributed.DistributedSampler(data, num_replicas=xr.world_size(), "
        "rank=xr.global_ordinal()), with set_epoch in each epoch and shuffle=False in the DataLoader.",
        ("XLA511", "XLA512", "XLA514", "XLA517", "XLA518"),
    ),
    Cause(
        "The batch of a step is that of all replicas together, and schedules count steps of the whole data.",
        "tune the learning rate for the larger batch; count steps by the length of the replica's own loader.",
        ("XLA175", "XLA178", "XLA179"),
    ),
    Cause(
        "The launcher finds no function to call, or calls the script once for all.",
        "def _mp_fn(index): main() at module level; on SageMaker "
        'distribution={"pytorchxla": {"enabled": True}} (not torchxla).',
        ("XLA162", "XLA163", "XLA923", "XLA932"),
    ),
    Cause(
        "The processes are started by torchrun, and each is alone in its world.",
        "torch_xla.launch in the script starts one process a device; look at xr.world_size().",
        ("XLA131", "XLA941"),
    ),
)
TOPICS = (
    Topic(
        "does-not-converge",
        "The loss does not fall as it does natively",
        "Make sure that the native run converges with the same hyper-parameters and seed. Then run on one "
        "device: what goes wrong there goes wrong on several as well. xla-migrate's own output was compared "
        "step by step on one device.",
        {"on one device": _ONE_DEVICE, "on several devices": _SEVERAL_DEVICES},
    ),
    Topic(
        "missing-xla-configuration",
        "The job fails with 'Missing XLA configuration'",
        "The message is that of PyTorch/XLA up to 2.0, which chose its device by variables of its own (XRT). "
        "Newer releases ask PJRT_DEVICE and say 'Defaulting to PJRT_DEVICE=CPU' instead. "
        "xla-migrate doctor looks at both.",
        {
            "up to release 2.0": (
                Cause(
                    "GPU_NUM_DEVICES is not set: it is the number of GPUs of one machine.",
                    'in SageMaker\'s estimator environment={"GPU_NUM_DEVICES": "4"}; or as a hyperparameter '
                    'n_gpus, which the script copies: os.environ["GPU_NUM_DEVICES"] = str(args.n_gpus); or '
                    'in the script: os.environ["GPU_NUM_DEVICES"] = "4".',
                    ("XLA933",),
                ),
                Cause(
                    "It is an integer: os.environ takes strings alone and raises a TypeError.",
                    'os.environ["GPU_NUM_DEVICES"] = "4", before the first use of a device.',
                    ("XLA933",),
                ),
                Cause(
                    "On TPUs XRT_TPU_CONFIG is not set, on CPUs XRT_DEVICE_MAP and XRT_WORKERS.",
                    "set them as the guide of that release says.",
                ),
            ),
            "from release 2.1 on": (
                Cause(
                    "PJRT_DEVICE is not set, and training runs on the CPU without an error.",
                    "set PJRT_DEVICE=TPU (or CPU; CUDA for releases 2.2 to 2.8).",
                ),
                Cause(
                    "PJRT_DEVICE=CUDA with release 2.9: 'No PjRtPlugin registered for: CUDA'.",
                    "the CUDA device ended with release 2.8.",
                ),
                Cause(
                    "GPU_NUM_DEVICES or XRT_TPU_CONFIG are left over: they configure nothing any more.",
                    "take them out.",
                    ("XLA933",),
                ),
            ),
        },
    ),
    Topic(
        "no-speed-up",
        "Training is not faster than natively",
        "Count: torch_xla.debug.metrics.metric_data('CompileTime')[0] must stop growing after a few steps, "
        "and ExecuteTime must grow by one a step. The first steps compile and are always slow.",
        {
            "it compiles again and again": (
                Cause(
                    "Batches are padded to their longest text.",
                    'padding="max_length" with a max_length, in collators too.',
                    ("XLA901", "XLA908"),
                ),
                Cause(
                    "The last batch of an epoch is smaller.",
                    "drop_last=True for training (dataloader_drop_last for transformers' Trainer).",
                    ("XLA905", "XLA926"),
                ),
                Cause(
                    "Shapes depend on the data, or on a Python number that changes.",
                    "masks by torch.where, fixed sizes, tensors instead of numbers.",
                    ("XLA902", "XLA903", "XLA904"),
                ),
            ),
            "it waits for the host": (
                Cause(
                    "Values are read in every step: item(), print, progress bars.",
                    "xm.add_step_closure(function, args=(loss,)), or every n-th step.",
                    ("XLA701", "XLA702", "XLA721"),
                ),
                Cause(
                    "An operator is not in XLA and is computed by the CPU.",
                    "the counters aten::* of torch_xla.debug.metrics name it.",
                    ("XLA906",),
                ),
                Cause(
                    "The data are late.",
                    "workers: at least as many as devices, fewer than CPU cores; MpDeviceLoader brings "
                    "batches to the device ahead of time.",
                    ("XLA503", "XLA927"),
                ),
            ),
            "it does too little a step": (
                Cause(
                    "The batch leaves the device half empty.",
                    "a larger batch, a multiple of eight (of 128 on TPUs), and a learning rate tuned again.",
                ),
                Cause(
                    "Mixed precision is off, or optimizers wait for the host to decide about a step.",
                    "torch.autocast; on GPUs the syncfree optimizers with torch_xla.amp.GradScaler, "
                    'optim="adamw_torch_xla" for transformers\' Trainer.',
                    ("XLA401", "XLA924"),
                ),
                Cause(
                    "It runs on the CPU: torch_xla 2.9 has no device for NVIDIA GPUs.",
                    "xla-migrate doctor says which devices are seen.",
                ),
            ),
        },
    ),
)


def topic(name: str) -> Topic | None:
    """The topic of a name, in whatever case."""
    return next((t for t in TOPICS if t.name == name.lower()), None)


Place = tuple[str, int, str]  # path, line, message


def places(cause: Cause, results: Mapping[str, tuple[Sequence[Finding], Sequence[Change]]]) -> list[Place]:
    """Where the rules of a cause have something to say, from the findings and changes of each file."""
    found: dict[Place, None] = {}
    for path, (findings, changes) in results.items():
        for finding in findings:
            if finding.code in cause.rules:
                found[(path, finding.span.line, f"{finding.code} {finding.message}")] = None
        for change in changes:
            if change.code in cause.rules and change.spans:
                line = change.spans[0].line
                if not any(p == path and n == line and m.startswith(change.code) for p, n, m in found):
                    found[(path, line, f"{change.code} {change.message}")] = None
    return sorted(found)
