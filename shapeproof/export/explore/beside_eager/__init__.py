"""Run the program and eager on the same inputs, at chosen points.

forms.py           the forms in which a program is run
                   copies of the model for them
replay.py          calls copies of both and compares them
runner.py          one run of a callable, and the comparison of two
dataflow.py        compares both without data: by the operators that they call
hollow.py          runs in which no tensor is computed that depends on given floats
pieces.py          pieces in which two such runs differ, run with random operands
laid_out.py        compares the memory layout of results
corners.py         the ends of the domain, and the bounds at which eager begins to serve
extent.py          the sizes that a failure reaches
kernels.py         custom operators against their fake kernels and the user's statements
checked.py         custom operators that are already proved
rebound.py         the inputs that a model rebinds
"""
