"""The store where the ranks of torch.distributed met: all ranks can read what one writes."""

from __future__ import annotations

from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import distributed_c10d

__all__ = ["PrefixStore", "Store", "default_store"]


def default_store() -> Store:
    """Return the store that init_process_group received or created."""
    return distributed_c10d._get_default_store()
