"""Torch's own operators, against their fake kernels and decompositions. `python -m benchmarks.operators` sweeps them.

calls.py           a call of an operator, as JSON and again
samples.py         the inputs of torch's database, at small sizes and in other layouts
watching.py        each call, beside what torch says of it
batch.py           some functions of the database, in a process of their own
symbolic.py        an operator whose sizes are symbols
probing.py         programs that look at a disagreement
trying.py          these, in a process of their own
gathering.py       runs the processes; a kernel may end its own
listing.py         the list, and the page
disagreements.json the list as it was found last
"""
