"""Reads the user's source and call stack: which line asks, its name for a size, where a Dim is written.

These files read source, frames and bytecode; they run no model and decide nothing about sizes.

frames.py        the user's frame and torch's own frame of a question
                 the place of a question, as data
names.py         the code's names for its sizes at a line
                 the line that repeats a question
declared_at.py   the line of a declaration in the user's call
handlers.py      whether the user's code catches an exception raised at a place
errors.py        the origin of an error
                 the line of a run that changes something
raised.py        the exceptions that reach handlers of the user's code
missing.py       attributes that a plain number has and a symbolic one lacks
texts.py         the use of a size's text
                 the dict or set in which a size is looked up
instructions.py  reads the instructions of each Python as steps of one small machine, and assembles code
definitions.py   a function's definition as it is written, and a function compiled in its place
abstract.py      interprets these steps, with objects and texts as values; the step and the names of a frame
"""
