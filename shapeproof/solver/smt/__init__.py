"""The interface to Z3. Law: no Z3 object leaves this folder.

ask.py       one question, by a fixed sequence of attempts
             one run of the solver: its context, seed and limit
lower.py     formulas as SMT-LIB over the integers
"""
