"""Builds the program that export returns: its domain as assertions, and its sizes.

conclude   the verdict and the program                         conclude.py
           the program, decomposed and saved                   program.py
enforce    the domain inside the graph                         assertions.py, hints.py
audit      the graph's assertions, against the proof           closing_audit.py
bound      least upper bounds of sizes from data               bounds.py
transform  decompositions, compared with the program           decompose.py
write      sizes and slice bounds, alike in every consumer     divisions.py, clamps.py
several    a program for each region of sizes, dispatched      regions.py
accepted/  the inputs that a program accepts
"""
