"""How many programs a declared domain needs.

forecasts.py   `forecast`: the regions, and which lines make the borders
least.py       the fewest sets that cover, the fewest blocks of a partition
"""
