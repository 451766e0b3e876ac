"""Each operator call in a trace.

operators.py   runs an operator and settles its decisions; refuses those that torch has wrong
               numbers that a dtype cannot hold
settle.py      settles one decision by running the operator again under the other answer
repeats.py     returns a result without a run
               recognizes views that are the same at every size
fakes.py       corrects what torch's fakes note of a result, and refuses what they make up
               dropout that drops nothing returns its operand
padding.py     amounts of a padding or crop, right where the model does neither
stated.py      what users state about their operators, checked by the program
"""
