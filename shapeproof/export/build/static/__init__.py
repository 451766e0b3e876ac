"""A program whose sizes from data are their proved bounds.

bounded.py         the program
masking.py         operands with their counts, and masks of what is meant
rows.py            what varies with some sizes, and whether rows are kept apart
masked.py          each operator at the bounds of its sizes
masked_rows.py     those that take sizes from data, look rows up or write them
masked_values.py   those that reduce, order or multiply
"""
