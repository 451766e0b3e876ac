"""Find what a model demands of its inputs: the sizes and data for which eager does not raise.

refusals.py          the loop over index and reduction requirements
indices.py           indices within what they index
reductions.py        reductions of at least one element
unmet.py             checks that no data pass
emptied.py           sizes that must not be 0
data_demands.py      integers that the program takes
shared_failures.py   sizes from data at which eager and the program both raise
"""
