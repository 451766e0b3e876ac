"""Shape specs in continuous integration. Importing this package loads nothing else.

jobs.py                             the question to a worker and its answer, as data
cli.py, commands/                   the command line
pytest_plugin.py, pytest_items.py   the pytest plugin
terminal.py, plain.py, pages.py, render/   output: the terminal, escaping, the page of a diagnostic, report formats
specs/                              reads specs: what to check
process/                            checks one model, in a separate process, and records what it has read
running/                            runs all checks, here or on a cluster, and remembers earlier runs
locked/                             compares the accepted inputs with those of the lock file
"""
