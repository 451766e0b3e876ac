"""One trace of a model: torch asks about sizes, the trial answers and records.

run      the model, under torch's own exporter            tracer.py
         what it leaves in its inputs' containers         rebinding.py
ask      torch's questions, as formulas                   shape_env.py
sizes    the symbols of sizes, and their meanings         size_symbols.py, translate.py
answer   what follows from the facts; the rest is a decision   trial.py, records.py, data_point.py
after    what a traced program knows; compilers ask       traced.py, closed_trial.py
python/  symbolic versions of Python's functions and classes
calls/   each call of an operator: run, settled, remembered
checks/  checks on data, written where they are made
known/   what is known about values, and passed to consumers
"""
