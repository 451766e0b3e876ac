"""Reads the user's source: which line asks, what it calls a size, where a Dim is written.

frames.py        the user's frame and torch's own, for a question
places.py        where a question was asked
names.py         what the code at a line calls its sizes
declared_at.py   where in the call a declaration is written
loops.py         which line repeats a question
handlers.py      whether the user's code catches what is raised at a place
changed_at.py    which line of a run changes something
errors.py        where an error comes from
raised.py        what reaches the handlers of the user's code
lookups.py       in which dict or set a size is looked up
missing.py       what a plain number has and a symbolic one has not
texts.py         what becomes of a text of a size
bytecode.py      what an instruction works on; whether it is an assert statement's
"""
