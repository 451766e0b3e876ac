"""Runs many jobs: recalls earlier answers, runs the rest, remembers the new answers.

run.py         the main path
executors.py   processes of this machine
cluster.py     a Dask cluster
repairs.py     the proved repairs of specs
cache.py       earlier answers that still hold
display.py     progress on stderr
"""
