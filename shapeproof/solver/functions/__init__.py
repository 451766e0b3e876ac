"""Knowledge about functions without an algebra: doubles, bits, powers.

axioms.py       inequalities and monotonicity, as formulas
doubles.py      the range of a float expression
enclosures.py   a float expression between two sums of integers
exact.py        where a double equals an integer
powers.py       powers with variable exponents
                bits of two unknown integers
"""
