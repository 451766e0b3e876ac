"""One trace of a model: torch asks about sizes, the trial answers and records.

run       the model, under torch's own exporter                 tracer.py
          Python's own functions and classes, of sizes          builtins.py, rewriting.py, plain_numbers.py,
                                                                ranges.py, distinct.py, users_functions.py
          what it catches that eager does not raise             caught.py
          where it asks whether it is traced                    whether_traced.py
          what code remembers between calls, put back           remembering.py
          what it leaves in the containers that it is given     rebinding.py
ask       torch's questions, as formulas                        shape_env.py, translate.py, no_constraints.py
answer    what follows from the facts; the rest is a decision   trial.py
check     checks on data, written where they are made           check_writer.py, raising.py, failures.py
operate   operators run, settled, remembered                    operators.py, settle.py, repeats.py, views.py
          rows of sparse tensors, numbers of the user's own     sparse.py, claimed.py
          what users state of their operators, checked          stated.py
tell      consumers, what is known of sizes                     known_sizes.py, branch_notes.py
know      equal calls give equal data; where integers lie       value_numbering.py, values.py
"""
