"""Shape specs in continuous integration. Importing this package loads nothing else.

job          what a worker is asked, what it answers         jobs.py
ask          from a shell, or from pytest                    cli.py, commands/, pytest_plugin.py, pytest_items.py
say          on the terminal; where a diagnostic is explained    terminal.py, plain.py, pages.py, render/
specs/       what is to be checked
process/     where one model is checked, alone
running/     all of them, here or on a cluster; what is remembered of earlier runs
provenance/  what a verdict was made from
locked/      what is accepted, compared with what was
"""
