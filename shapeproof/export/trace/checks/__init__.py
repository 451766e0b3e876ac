"""Checks on data while a model is traced.

raising.py        turns a branch into a check if one side raises
                  writes a check into the graph
failures.py       lists the operators that may fail because of data
                  holds such operators where their results are unused
"""
