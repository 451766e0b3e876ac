"""Find what a model demands of its inputs: the sizes and data for which eager does not raise.

preconditions.py     the sizes that eager rejects for all data
graph_demands.py     requirements of operators: indices in range, an element to reduce, no overlapping writes
data_demands.py      integers that the program takes
shared_failures.py   sizes from data at which eager and the program both raise
"""
