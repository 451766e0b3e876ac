"""Records the inputs of a verdict, so that a change of one causes a new check.

sources.py    the code, data and variables that a process has read
watch.py      observes what code asks of the operating system
opened.py     files that are opened without an audit event
identity.py   digests of content
"""
