"""What is known of functions that have no algebra: doubles, bits, powers.

axioms.py       inequalities and monotony, as formulas
doubles.py      where a float expression lies
enclosures.py   a float expression between two sums of integers
exact.py        where a double equals an integer
powers.py       powers with exponents that vary
masks.py        bits of two unknown integers
"""
