"""Compares the inputs that a model accepts with those it accepted before.

lock.py        the lock file
narrowing.py   the smallest input that is no longer accepted
contracts.py   is there an input that one contract accepts and another refuses?
"""
