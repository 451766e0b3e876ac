"""Inputs that are padded to a few sizes.

bucketing.py   `buckets`: the sizes to pad to
plans.py       the search for them
sized.py       the sizes that are to be padded
padding.py     whether a program may be padded, proved or tried
trials.py      at which sizes and on which data it is tried
"""
