"""The inputs that a program accepts, checked before the program runs.

contract.py   the inputs, the domain of their sizes, their layout in memory
guards.py     kind, dtype, device, layout, rank, sizes
              strides, offsets, sharing
shipped.py    the contract for use without torch
"""
