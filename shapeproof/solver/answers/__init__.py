"""Answers for people, made of many questions to the ladder (prove.py).

points       any, the smallest, a generic one                 witness.py
bounds       the least upper, the greatest lower              optimum.py
repairs      what to declare so that something holds          repair.py, round_anchor.py
words        without what is redundant, in fewer words        simplify.py, simplest.py, wording.py
reasons      which decisions are reasons                      blame.py
programs     a formula that can be computed end to end        totality.py
"""
