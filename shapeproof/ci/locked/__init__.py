"""What a model accepts, compared with what it accepted before.

lock.py        the lock file
narrowing.py   the smallest input that is no longer accepted
contracts.py   is there an input that one program accepts and another does not?
"""
