"""The inputs that a program accepts, for its servers. Imports neither torch nor Z3, only the standard library.

contract.py    the contract: accepts, check, wrap; to JSON and back
guarded.py     shapeproof.guard: a session, method or callable that checks each call
holder.py      checks flat inputs; finds the nearest accepted sizes
               the whole check as one generated function
inputs.py      the requirements on one flat input
               how a call nests the flat inputs
sizes.py       symbols read off sizes, and checked against formulas
outside.py     the error for inputs that are not accepted
archives.py    the contract inside the file of a saved program, or beside it
onnx_files.py  the contract inside an ONNX file
header.py      the contract as a C++ header; checks.h: its arithmetic
"""

from shapeproof.contract.contract import Contract, load
from shapeproof.contract.holder import Answer
from shapeproof.contract.outside import OutsideDomain

__all__ = ["Answer", "Contract", "OutsideDomain", "load"]
