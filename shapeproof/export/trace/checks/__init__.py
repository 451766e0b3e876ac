"""Checks on data while a model is traced.

check_writer.py   writes a check into the graph
raising.py        turns a branch into a check if one side raises
failures.py       lists the operators that may fail because of data
held.py           holds such operators where their results are unused
"""
