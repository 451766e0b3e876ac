"""Symbolic numbers, as torch has them and as Python code sees them.

symbols.py     read without asking anything about them
sym_nodes.py   with float arithmetic as Python wrote it
doubles.py     the expressions of that arithmetic
recording.py   brought into the tracer's graph
protocols.py   asked by Python itself: hash, text
"""
