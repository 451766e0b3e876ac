"""The spec file: which models are checked, at which sizes.

spec.py          the file, read
dims.py          its sizes and relations
seen_spec.py     a spec written from what was seen
spec_errors.py   what is wrong with it, in a sentence
toml_lines.py    at which line
"""
