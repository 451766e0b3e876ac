"""What is known of the values and sizes of a trace.

value_numbering.py   which tensors hold the same
values.py            where the integers of a storage lie
known_sizes.py       sizes as consumers are told them
branch_notes.py      the same inside the branches of torch.cond
"""
