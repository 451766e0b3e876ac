"""Many jobs: recalled, run, remembered.

run.py         the main path
executors.py   processes of this machine
cluster.py     a Dask cluster
cache.py       answers that still hold
changes.py     which files differ from a revision
display.py     what is being done, on stderr
"""
