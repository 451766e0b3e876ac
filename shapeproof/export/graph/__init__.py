"""Reads, writes and compares traced graphs. It runs no data.

compare   are two programs the same on a region?       equivalence.py, operations.py, rerun.py, bodies.py, taken.py,
                                                       constants.py, metadata.py
read      what a node does: views, writes, copies      nodes.py, aliasing.py
          what varies with some sizes, and how            rows.py
          where a small difference becomes a large one  rounding.py
write     sizes and conditions as nodes                emit.py, serializable.py
read back what a graph asserts                         readback.py
"""
