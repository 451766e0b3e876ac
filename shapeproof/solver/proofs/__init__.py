"""A run's claims as SMT-LIB, checked again by others.

certificate.py   what a verdict rests on
recheck.py       proves every claim again, from the text alone
second.py        cvc5, where it is installed
"""
