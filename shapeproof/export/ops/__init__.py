"""What is known of each operator, as tables: sizes, values, decompositions.

row_by_row.py       which keep rows apart, so that inputs may be padded
output_sizes.py     what the sizes of a result are, where they come from data
value_ranges.py     where the integers of a result lie
stated.py           both of these, as users state them of their own operators
decompositions.py   functions of torch that freeze a size, written in others that do not
recurrent.py        what LSTM, GRU and RNN give
elementwise.py      whose result lies as the operand does
shape_functions.py  the sizes of a result whose operands lie row by row
layouts.py          which calls act on the layout of a tensor
properties.py       which calls read what no operator computes again: strides, offset, requires_grad
schemas.py          arguments by name, what is written into, what is a view
call.py, reading.py an operator's call, as the rules see it
"""
