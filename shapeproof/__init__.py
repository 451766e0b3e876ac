"""An exporter and constraint checker for torch.export: proves, refutes, or reports that it cannot decide.

Importing this package loads neither torch nor z3. Import `shapeproof.export`, `shapeproof.solver` or
`shapeproof.constraints`; each loads only its own dependencies.
"""

__version__ = "0.1.0"
