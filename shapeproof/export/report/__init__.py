"""The result of an export, as data and as text.

This room words and stores the results of other rooms. Every suggestion to the user is proved by the solver.

report.py       the result of a check
explain.py      one diagnostic per finding
rebound.py      attributes that a model rebinds in its inputs
advice.py       checks on data that settle a question
remedies.py     declarations that are proved to help
oblivious.py    size-oblivious assumptions that are proved harmless
sizes.py        the domain in terms of the inputs' sizes
                sizes that come from data, with their bounds
region_map.py   the regions of a domain, and where a size lies
render.py       a report as text
colours.py      a report as text in colour
saved.py        a report to and from JSON
page/           a report as a page, and in notebooks
"""
