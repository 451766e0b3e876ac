"""What a model demands of its inputs: sizes and data for which eager does not raise.

refusals.py          the loop over all of these
indices.py           indices within what they index
reductions.py        reductions of at least one element
unmet.py             checks that no data pass
emptied.py           sizes that must not be 0
data_demands.py      integers that the program takes
shared_failures.py   sizes out of data at which eager and the program both raise
"""
