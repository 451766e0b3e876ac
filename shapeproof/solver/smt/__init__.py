"""The interface to Z3. Law: no Z3 object leaves this folder.

ask.py       one question, by a fixed sequence of attempts
lower.py     formulas as SMT-LIB over the integers
session.py   one run of the solver: its context, seed and limit
"""
