"""What terms and formulas mean. `evaluate` is the definition; the others agree with it.

evaluate.py      the value at a point
compiled.py      the same, as one Python function for very many points
definedness.py   where there is a value at all
intervals.py     bounds of the values over a box
"""
