"""The start of a training process, for torch.distributed.

    from headwater.distributed import slurm_init, verify_interconnect

    env = slurm_init()
    verify_interconnect()

PyTorch is imported only when a function is called. No GPU is needed.
"""

from .interconnect import Interconnect, verify_interconnect
from .process_group import Environment, slurm_init

__all__ = ["Environment", "Interconnect", "slurm_init", "verify_interconnect"]
