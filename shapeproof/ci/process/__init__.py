"""One model is checked in a process of its own.

worker.py       the process: a job comes in, what it finds goes out
isolation.py    starts it, and outlives it
frames.py       what the two say to each other
processes.py    ends a process and all that it has begun
subjects.py     imports and calls what is to be checked
tracebacks.py   what its code raised
spec_help.py    help in the spec's own words
"""
