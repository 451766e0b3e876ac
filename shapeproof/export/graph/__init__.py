"""Reads, writes and compares traced graphs. It runs no data.

compare    are two programs the same on a region?   equivalence.py, operations.py, rerun.py, bodies.py, taken.py,
                                                    constants.py, metadata.py
write      sizes and conditions as nodes            emit.py, serializable.py
reading/   what one node, or one graph, does
"""
