"""Which sizes does a program serve? Traces and compares wherever the domain asks for it.

explore   main program, cells, findings          explorer.py, cells.py, coincidences.py, findings.py, limits.py,
                                                 sizes.py
          what is given up, and what is not      scout.py, narrowing.py, kept_equal.py, regions.py,
                                                 unserved.py
run       beside eager, at chosen points         replay.py, laid_out.py, corners.py, kernels.py, serving_bound.py,
                                                 extent.py
          on data that the model takes           data_demands.py
          operators, against what is stated      statements.py
          operators that are proved already      checked.py
          to see what both do, or do not         shared_failures.py, rebound.py
refuse    what eager raises whatever the data    unmet.py, refusals.py, emptied.py, indices.py, reductions.py
"""
