"""Narrow an inferred domain to what the model supports.

ties.py         the equalities of the example that a large model needs, from runs alone
narrowing.py    the parts of the domain that may be excluded; equalities of the example that only a run requires;
                a simple domain that a model asks for
"""
