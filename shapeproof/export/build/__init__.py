"""The program that is handed out: its domain as assertions, its sizes, its forms.

conclude     the verdict and the program                    conclude.py, program.py
enforce      the domain inside the graph                    assertions.py, data_assertions.py, clamps.py, hints.py
audit        the assertions that are there, against the proof  closing_audit.py
refuse       whatever else a module is given                contract.py, guards.py, memory.py
ship         the contract where there is no torch       shipped.py
transform    decompositions, held against the program       decompose.py, core_operators.py
several      programs of regions, dispatched or merged      dispatch.py, merge.py, branches.py, predicates.py
train        results and gradients in one program        gradients.py
bound        least upper bounds of sizes from data          bounds.py
             a program at these bounds                      bounded.py, masked.py, masked_rows.py, masked_values.py,
                                                            masking.py
"""
