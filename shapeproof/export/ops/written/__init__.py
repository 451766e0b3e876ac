"""Functions of torch, rewritten for symbolic sizes; decompositions.py lists them, and has the law that they keep.

statistics.py   covariances, counts, combinations and powers
signals.py      windows, frequencies and the inverse of a short-time Fourier transform
"""
