"""The store that the ranks of torch.distributed have met at: what one writes there, all can read."""

from __future__ import annotations

from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import distributed_c10d

__all__ = ["PrefixStore", "Store", "default_store"]


def default_store() -> Store:
    """The store that init_process_group was given, or has made."""
    return distributed_c10d._get_default_store()
