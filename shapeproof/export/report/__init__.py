"""What was found, as data and as words.

report.py       the result of a check
explain.py      one diagnostic for one finding
given.py        one for an input that was given and is not served
rebound.py      what a model rebinds in its inputs
advice.py       which findings to tell, and what to note beside them
remedies.py     declarations that are proved to help
oblivious.py    which size-oblivious assumptions are proved harmless
sizes.py        the domain, said of the sizes of inputs alone
bounds.py       sizes that come out of data, with their bounds
region_map.py   the regions of a split model, drawn
render.py       a report as text
html.py         a report for notebooks
saved.py        a report as JSON, and again
"""
