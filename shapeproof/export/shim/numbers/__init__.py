"""Symbolic numbers, as torch represents them and as Python code sees them.

symbols.py     reads them without asking a question
sym_nodes.py   float arithmetic as Python wrote it
doubles.py     the expressions of that arithmetic
recording.py   records them in the tracer's graph
protocols.py   Python's own questions: hash, text
"""
