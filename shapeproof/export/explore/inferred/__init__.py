"""Narrow an inferred domain to what the model supports.

narrowing.py    the parts of the domain that may be excluded; equalities of the example that only a run requires;
                a simple domain that a model asks for
"""
