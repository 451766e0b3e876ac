"""The meaning of terms and formulas. `evaluate` is the definition; the other modules agree with it.

evaluate.py      the value at a point
                 where an expression has a value at all
compiled.py      the same, as one Python function for very many points
intervals.py     bounds of the values over a box
"""
