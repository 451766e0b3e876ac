"""Terms and formulas as text. `parse(str(x)) is x`.

text.py       the two directions, for users of this room
parsing.py    from text
printing.py   to text
"""
