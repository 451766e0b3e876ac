"""What a program may be given, held before it runs.

contract.py   the inputs, the domain of their sizes, how they lie in memory
guards.py     kind, dtype, device, layout, rank, sizes
memory.py     strides, offsets, sharing
shipped.py    the contract where there is no torch
"""
