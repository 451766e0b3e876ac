"""Narrow an inferred domain to what the model supports.

scout.py        a simple domain that a model asks for, from one trace
as_main.py      a trace as one of a part of its domain: the scout's as the main program's
narrowing.py    the parts of the domain that may be excluded
kept_equal.py   equalities of the example that only a run requires
"""
