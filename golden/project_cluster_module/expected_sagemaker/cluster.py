"""What the scheduler tells each task:  srun --ntasks-per-node=N --gpus-per-task=1 python train.py"""

import os
import torch_xla.core.xla_model as xm

rank = xm.get_ordinal()
local_rank = xm.get_local_ordinal()
size = xm.xrt_world_size()
cpus_per_task = int(os.environ.get("SLURM_CPUS_PER_TASK", 1))
