"""What a verdict was made from, so that it is made again when that changes.

sources.py    the code, data and variables that a process has read
watch.py      what code asks of the machine, as it asks
opened.py     files that are opened without an audit event
identity.py   a thing's content as a digest
"""
