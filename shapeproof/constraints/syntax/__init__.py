"""Terms and formulas as text. `parse(str(x)) is x`.

text.py       from text; the two directions, for users of this room
printing.py   to text
"""
