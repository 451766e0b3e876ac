"""Tables about each operator: sizes, values, decompositions.

table.py            the facts about each operator: one record per overload
row_by_row.py       operators that keep rows apart, so that inputs may be padded
output_sizes.py     sizes of a result that come from data
value_ranges.py     bounds of the integers in a result
stated.py           both of these, stated by users for their own operators
decompositions.py   functions of torch that freeze a size, rewritten in functions that do not
rewritten.py        more of these, of windows, frequencies, covariances and counts
recurrent.py        results of LSTM, GRU and RNN
layouts.py          sizes and layouts of fake tensors, compared
shapes/             sizes and dtypes of results without a run
properties.py       calls that read what no operator computes again: strides, offset, requires_grad
schemas.py          arguments by name, mutated arguments, views; a call, read for the rules
call.py             an operator's call, as the rules receive it
"""
