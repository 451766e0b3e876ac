"""Find the sizes that a program serves, by tracing the model and comparing programs across the domain.

The files find facts about programs; verdicts and their wording are made elsewhere.

explore     the main program, then the cells               explorer.py, findings.py
main        the program that all others are compared with   main_program.py
ladder      whether the main program serves a cell         ladder.py, judge.py
trace       traces at chosen points                        attempts.py, points.py
several     programs of a split model                      regions.py
compare/       proves that two programs are the same on a region
inferred/      decides how an inferred domain may be narrowed
beside_eager/  runs program and eager on the same inputs
demands/       finds inputs that eager rejects for all data
"""
