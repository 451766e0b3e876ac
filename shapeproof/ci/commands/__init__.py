"""One file for each command. A command reads its arguments, calls what does the work, prints, and exits.

check.py     the models of specs
lock.py      their proved contracts, written
diff.py      what two programs accept, compared
explain.py   one model, in full
rule.py      the page of a diagnostic
seen.py      a spec from what was seen
recheck.py   a certificate
"""
