"""Builds a program whose sizes from data are constant, at their proved bounds.

Words in this room: a *count* is the actual value of such a size, *valid* rows are the first `count` rows along a dim.

bounded.py         the program
masking.py         operands with their counts, and masks of valid elements
rows.py            which nodes vary with these sizes, and which keep rows apart
masked_rows.py     operators that create sizes from data, look up rows or write them
masked_values.py   operators that reduce, order or multiply
masked_losses.py   losses, and their gradients
"""
