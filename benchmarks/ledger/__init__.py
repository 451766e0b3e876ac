"""A ledger of verdicts: one line for each model of four collections, to hold a change of the code against.

    make ledger             export everything, and write the lines anew
    make ledger-diff        say in words what differs from the last commit's lines
    make plain              export everything in the plain way, and compare with the lines that are there

lines.py        what a line says, and the files of lines
sources.py      the models: of the benchmarks, of users' reports, random programs, torch's operators
running.py      each model in a process of its own
difference.py   two ledgers, compared in words

Law: a line says nothing that depends on the machine, and a verdict nothing that depends on the lines before it.
"""
