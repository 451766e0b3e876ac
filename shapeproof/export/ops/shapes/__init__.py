"""What is known of operators' results without a run.

shape_functions.py   their sizes, where the operands are contiguous, row by row
dtypes.py            their dtypes
"""
