"""Which sizes does a program serve? Traces and compares wherever the domain asks for it.

explore        main program, cells, findings         explorer.py, cells.py, coincidences.py, findings.py, limits.py,
                                                     sizes.py
several        programs of a split model             regions.py
given          inputs that are not served            unserved.py
compare/       are two programs the same on a region?
inferred/      what is given up of a domain that is inferred, and what is not
beside_eager/  program and eager on the same inputs
demands/       what eager refuses whatever the data
"""
