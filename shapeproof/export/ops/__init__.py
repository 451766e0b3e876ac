"""Tables about each operator: sizes, values, decompositions.

table.py            the operators of torch: the family of each, what follows from it, and what else is known
row_by_row.py       operators that keep rows apart, by family, so that inputs may be padded
output_sizes.py     sizes of a result that come from data
value_ranges.py     bounds of the integers in a result
stated.py           both of these, stated by users for their own operators
decompositions.py   functions of torch that freeze a size, rewritten in functions that do not
rewritten.py        more of these, of windows, frequencies, covariances and counts
shapes/             results without a run; sizes and layouts, compared
properties.py       calls that read what no operator computes again: strides, offset, requires_grad
schemas.py          arguments by name, mutated arguments, views; a call, read for the rules
call.py             an operator's call, as the rules receive it, and its record
"""
