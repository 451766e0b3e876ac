"""Public architectures with random weights, declared as their users would, and what two exporters make of each.

entry.py            an entry: the model, its inputs, its dims
of_transformers.py  what the entries of transformers share
families/           the entries
packages.py         makes torchvision importable
attempt.py          one exporter on one entry, in a process of its own
kept.py, results/   what was found: one file a family, one line an entry
__main__.py         all entries, one after the other: `make zoo`
page.py             docs/zoo.md, from the results
"""
