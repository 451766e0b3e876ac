"""What is known of operators' results without a run.

shape_functions.py   their sizes, where the operands are contiguous, row by row
samples.py           their dtypes and dims, as eager gives them for a small sample
recurrent.py         results of LSTM, GRU and RNN
layouts.py           sizes and layouts of fake tensors, compared
"""
