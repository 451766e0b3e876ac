"""The spec file: which models are checked, at which sizes.

spec.py          reads the file
dims.py          its sizes and relations
tables.py        writes tables of it
seen_spec.py     writes a spec from a profile of seen inputs
spec_errors.py   words the fault of an invalid spec
toml_lines.py    finds the line of a key
"""
