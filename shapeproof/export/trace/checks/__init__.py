"""Checks on data while a model is traced.

check_writer.py   writes a check into the graph
raising.py        a branch with a side that raises is a check
failures.py       which operators may fail because of data
"""
