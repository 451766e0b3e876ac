"""Plain records that the rooms above exchange.

domain.py        declarations about the sizes
decisions.py     the guards of a trace
verdicts.py      Proved, Refuted, Undecided, Vacuous
diagnostics.py   messages to the user, as data
"""
