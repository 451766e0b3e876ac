"""What is known about the values and sizes in a trace.

value_numbering.py   tensors with equal elements
                     bounds of the integers in a storage
exact_numbers.py     numbers that a model computes with tensors of one element
                     the buffers on whose elements sizes rest
known_sizes.py       the sizes that consumers of a program see
                     the same inside the branches of torch.cond
"""
