"""Pads inputs to a few sizes.

bucketing.py   `buckets`: the sizes to pad to
plans.py       the search for these sizes
sized.py       the sizes to be padded
padding.py     whether a program's inputs may be padded: proved or tried
"""
