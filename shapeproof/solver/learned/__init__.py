"""What a list of facts amounts to, without a solver.

state    symbols solved, ranges, what remains         knowledge.py, layers.py
learn    how a fact becomes knowledge                 learning.py, equalities.py, remainders.py, shaving.py
use      terms rewritten and bounded by it            reduction.py, substitution.py, bounding.py, enclosed.py
         does a sum of inequalities give this one?    entailment.py
audit    what these steps claim, for Z3 to prove      audit.py
"""
