"""The only door to Z3. No object of Z3 leaves it.

ask.py       one question, by a fixed sequence of attempts
lower.py     formulas as SMT-LIB over the integers
session.py   one run of the solver: its context, seed and limit
"""
