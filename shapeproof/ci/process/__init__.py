"""Checks one model in a separate process.

worker.py       the process: reads a job, writes its answer
isolation.py    starts the process and survives its crash
frames.py       the messages between the two
processes.py    kills a process and all its descendants
subjects.py     imports and calls the target
tracebacks.py   the user's frames of an exception or crash
inferred.py     a spec from an example
spec_help.py    help in the words of the spec
recorder.py     what the process has read: the inputs of the verdict
digests.py      digests of content
"""
