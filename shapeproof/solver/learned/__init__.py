"""The consequences of a list of facts, without a solver.

state    symbols solved, ranges, active formulas      knowledge.py, index.py
         does a sum of inequalities imply this one?   knowledge.py
learn    how a fact becomes knowledge                 learning.py, equalities.py
use      terms rewritten and bounded by knowledge     reduction.py, bounding.py (and remainders)
audit    the claims of these steps, for Z3 to prove   audit.py
"""
