"""Each operator call in a trace.

operators.py   runs an operator and settles its decisions; refuses those that torch has wrong
settle.py      settles one decision by running the operator again under the other answer
repeats.py     returns a result without a run
recalled.py    keeps what other traces of the model returned and settled
plain_views.py   recognizes views that are the same at every size
views.py       gives a view the sizes that the call asked for
sparse.py      sparse tensors: sizes that come from data, and what fake tensors make up
claimed.py     numbers that the user's own operators return
dropouts.py    dropout that drops nothing returns its operand
numbers.py     numbers that a dtype cannot hold
stated.py      what users state about their operators, checked by the program
"""
