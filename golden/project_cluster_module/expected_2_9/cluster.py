"""What the scheduler tells each task:  srun --ntasks-per-node=N --gpus-per-task=1 python train.py"""

import os
import torch_xla.runtime as xr

rank = xr.global_ordinal()
local_rank = xr.local_ordinal()
size = xr.world_size()
cpus_per_task = int(os.environ.get("SLURM_CPUS_PER_TASK", 1))
