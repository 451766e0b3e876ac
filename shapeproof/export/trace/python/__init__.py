"""Python's own functions and classes where a model gives them sizes.

builtins.py          has a model's functions call what stands for Python's
rewriting.py         makes their code anew
users_functions.py   finds the functions that no name leads to
plain_numbers.py     what stands for `int`, `len`, `isinstance` and their like
ranges.py            for `range`
distinct.py          for `set`
remembering.py       what code remembers between calls, put back
whether_traced.py    notes where a model asks whether it is traced
"""
