"""One trace of a model: torch asks about sizes, the trial answers and records.

run       the model, under torch's own exporter                     tracer.py, builtins.py
ask       torch's questions, as formulas                            shape_env.py, translate.py, no_constraints.py
answer    what follows from the facts; the rest is a decision       trial.py
operate   operators run, settled, remembered                        operators.py, settle.py, repeats.py,
                                                                    views.py, sparse.py
know      equal calls give equal data; where integers lie           value_numbering.py, values.py
"""
