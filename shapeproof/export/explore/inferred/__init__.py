"""A domain that is left to be inferred.

scout.py        the simple domain that a model asks for, read off one trace
narrowing.py    which part of it may be given up
kept_equal.py   equalities of the example that a run asks for
"""
