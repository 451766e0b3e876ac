"""Others that decide the same questions, each behind the same two calls: read and answer, and learn.

Each runs as a process of its own, some in a virtual environment of their own, so only the standard library and
`benchmarks.peers.reading` and `worker` are shared. What a peer answers is claimed, not believed: see scoring.py.
"""
