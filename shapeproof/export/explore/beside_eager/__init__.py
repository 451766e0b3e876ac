"""Program and eager on the same inputs, at chosen points.

replay.py          one run of both, compared
laid_out.py        how results lie in memory
corners.py         where the domain ends
extent.py          how far a failure reaches
serving_bound.py   where eager begins to serve a size
kernels.py         operators that are not torch's own, against their fake kernels
statements.py      and against what is stated of them
checked.py         those that are proved already
rebound.py         what a model rebinds in its inputs
"""
