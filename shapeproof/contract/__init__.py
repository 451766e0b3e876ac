"""What a program accepts, for whoever serves it: no torch, no Z3, the standard library alone.

contract.py    the contract: accepts, check, wrap
holder.py      flat inputs held against it: the answer, and the nearest accepted sizes
inputs.py      what one flat input must be
sizes.py       symbols read off sizes, and held against formulas
structure.py   how inputs lie in what a call is given
fast.py        all of it as one generated function
nearest.py     the nearest accepted value of a symbol
outside.py     the error of an input that is not accepted
saved.py       contracts as JSON, and again
archives.py    found in what programs are saved as
"""

from shapeproof.contract.contract import Contract
from shapeproof.contract.holder import Answer
from shapeproof.contract.outside import OutsideDomain
from shapeproof.contract.saved import load

__all__ = ["Answer", "Contract", "OutsideDomain", "load"]
