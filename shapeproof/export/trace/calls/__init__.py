"""Each call of an operator in a trace.

operators.py   run, and its decisions settled
settle.py      one decision settled: the operator is run again under the other answer
repeats.py     a result given without a run
recalled.py    what other traces of the model have given and settled
views.py       a view has the sizes that it was asked for
sparse.py      sparse tensors: what data give and fakes make up
claimed.py     numbers that the user's own operators give
mistaken.py    operators whose fakes torch has wrong, refused
stated.py      what users state of these, checked by the program
"""
