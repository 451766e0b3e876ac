"""Answers for users, each made of many questions to the ladder (prove.py).

points       any, the smallest, a generic one                 witness.py
bounds       the least upper, the greatest lower              optimum.py
repairs      declarations that make a formula hold            repair.py
words        without redundant parts, in fewer words          simplify.py, wording.py
reasons      guards that are not implied by others            blame.py
programs     a formula that needs no short-circuiting         simplify.py
"""
