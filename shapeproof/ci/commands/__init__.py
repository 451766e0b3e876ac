"""One file for each command. A command reads its arguments, calls the code that does the work, prints, and exits.

init.py      writes the first spec of a model
check.py     checks the models of specs
lock.py      writes their proved contracts
diff.py      compares the accepted inputs of two programs
explain.py   one model, in full
ship.py      writes a model as the file of a consumer
verify.py    runs such a file
rule.py      the page of a diagnostic
schema.py    the grammar of specs
zoo.py       the spec of a public architecture
seen.py      a spec from a profile of seen inputs
recheck.py   proves a certificate again
header.py    a contract as a C++ header
"""
