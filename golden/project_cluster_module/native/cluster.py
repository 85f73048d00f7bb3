"""What the scheduler tells each task:  srun --ntasks-per-node=N --gpus-per-task=1 python train.py"""

import os

rank = int(os.environ["SLURM_PROCID"])
local_rank = int(os.environ["SLURM_LOCALID"])
size = int(os.environ["SLURM_NTASKS"])
cpus_per_task = int(os.environ.get("SLURM_CPUS_PER_TASK", 1))

os.environ.setdefault("MASTER_ADDR", os.environ.get("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"))
os.environ.setdefault("MASTER_PORT", "12345")
