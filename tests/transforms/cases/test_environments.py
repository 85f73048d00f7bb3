"""What starts a script, and scripts that leave their training to a library."""

from __future__ import annotations

import pytest
from whole import becomes, says

from xla_transforms.settings import Settings

JOB = """\
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

cli = argparse.ArgumentParser()
cli.add_argument("--gpus", type=int, default=int(os.environ.get("SM_NUM_GPUS", 1)))
args, _ = cli.parse_known_args()
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
device = torch.device("cuda", local)
dist.init_process_group("nccl", rank=local, world_size=args.gpus)
net = DDP(torch.nn.Linear(4, 2).to(device))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    net(torch.rand(2, 4).to(device)).sum().backward()
    opt.step()
"""
OPTION = 'cli.add_argument("--gpus", type=int, default=int(os.environ.get("SM_NUM_GPUS", 1)))\n'


@pytest.mark.parametrize("target", ["2.9", "2.5", "2.1", "sagemaker"])
def test_the_number_of_devices_is_the_runtimes(target: str) -> None:
    """Each process has one device, never one by its number; the user's option stays, and is a number."""
    text = becomes(JOB, OPTION, settings=Settings(target=target)).data.decode()
    assert "local_ordinal()" not in text  # nothing asks for the number any more
    assert "init_process_group" not in text
    assert not {'"cuda"', "xla:0", "LOCAL_RANK", "set_device"} & set(text.replace("(", " ").split())
    assert "GPU_NUM_DEVICES" not in text or 'os.environ["GPU_NUM_DEVICES"] = str(' in text


TRAINER = """\
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

tok = AutoTokenizer.from_pretrained("tiny")
net = AutoModelForSequenceClassification.from_pretrained("tiny")
rows = [tok(text, truncation=True) for text in ("good", "not so good")]
conf = TrainingArguments(
    "out", per_device_train_batch_size=16, fp16=True, dataloader_num_workers=4
)
opt = torch.optim.AdamW(net.parameters(), lr=5e-5)
coach = Trainer(
    model=net,
    args=conf,
    train_dataset=rows,
    data_collator=DataCollatorWithPadding(tok),
    optimizers=(opt, None),
)
coach.train()
if conf.local_rank in (-1, 0):
    coach.save_model("out/final")
"""


def test_a_script_around_a_trainer_is_not_migrated_too_far() -> None:
    text = becomes(
        TRAINER,
        '        "out", per_device_train_batch_size=16, bf16=True, dataloader_num_workers=4\n',
        "    torch.__future__.set_swap_module_params_on_conversion(True)\n    coach = Trainer(\n",
        '    coach.train()\n    coach.save_model("out/final")\n',
    ).data.decode()
    assert not [w for w in ("MpDeviceLoader", "optimizer_step", "xm.save", "Sampler") if w in text]
    says(
        TRAINER,
        "XLA926 info: conf = TrainingArguments(",
        "XLA921 info: coach = Trainer(",
        "XLA901 warning: data_collator=DataCollatorWithPadding(tok),",
    )
