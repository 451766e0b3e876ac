"""An exporter and constraint checker for torch.export: proves, refutes, or reports that it cannot decide.

Importing this package loads neither torch nor z3. Import `shapeproof.export`, `shapeproof.solver` or
`shapeproof.constraints`; each loads only its own dependencies. `shapeproof.guard` needs the standard library alone.
"""

from typing import TYPE_CHECKING

from shapeproof.lazily import imported

if TYPE_CHECKING:
    from shapeproof.contract.guarded import guard as guard

__all__, __getattr__ = imported(__name__, {".contract.guarded": "guard"})

__version__ = "0.1.0"
