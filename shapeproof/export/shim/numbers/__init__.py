"""Symbolic numbers, as torch represents them and as Python code sees them.

symbols.py     reads them without asking a question
               records them in the tracer's graph
sym_nodes.py   float arithmetic as Python wrote it
doubles.py     the expressions of that arithmetic
protocols.py   Python's own questions: hash, text
"""
