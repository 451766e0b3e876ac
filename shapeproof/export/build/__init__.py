"""The program that is handed out: its domain as assertions, its sizes, its forms.

conclude   the verdict and the program                         conclude.py, program.py
enforce    the domain inside the graph                         assertions.py, data_assertions.py, clamps.py, hints.py
audit      the assertions that are there, against the proof    closing_audit.py
train      results and gradients in one program                gradients.py
bound      least upper bounds of sizes from data               bounds.py
transform  decompositions, held against the program            decompose.py, core_operators.py
accepted/  what a program may be given
regions/   several programs: dispatched, or merged
static/    a program at the bounds of its sizes
"""
