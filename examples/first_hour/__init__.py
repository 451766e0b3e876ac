"""The eight kinds of model that people ship first, declared as they are first written: each is repaired by its report.

Never imported by the package; `tests/shipping` exports each, applies what the report says first and ships the result.
"""
