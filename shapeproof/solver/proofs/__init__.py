"""The claims of a run as SMT-LIB, checked again by independent solvers.

certificate.py   the proofs behind a verdict
recheck.py       proves every claim again, from the text alone, with Z3 and cvc5 (an optional extra)
"""
