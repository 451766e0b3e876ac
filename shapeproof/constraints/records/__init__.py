"""Data that the rooms above hand to each other. Nothing is decided here.

domain.py        what is declared of the sizes
decisions.py     what a trace depended on
verdicts.py      Proved, Refuted, Undecided, Vacuous
diagnostics.py   what is said to the user
"""
