"""An exporter and constraint checker for torch.export that proves, refutes, or admits that it cannot decide.

Importing this package loads neither torch nor z3: import `shapeproof.export`, `shapeproof.solver` or
`shapeproof.constraints`, each of which loads only what it needs.
"""

__version__ = "0.1.0"
