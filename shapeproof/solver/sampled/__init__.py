"""Points at which facts hold, found by evaluation alone.

points.py       candidates for points
conditions.py   the facts, sorted for quick evaluation at points
exhaustion.py   every point of a small box
"""
