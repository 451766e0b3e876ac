"""Points at which facts hold, found by evaluation alone.

points.py       points that are kept while they hold
conditions.py   what must hold at a point, sorted for quick evaluation
exhaustion.py   every point of a small box
"""
