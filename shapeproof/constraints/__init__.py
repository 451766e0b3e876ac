"""What must hold: terms, formulas, their meaning, and what is said about them. Standard library only.

terms      integers, and what they are made of     terms.py, atoms.py, polynomials.py, division.py, bits.py
formulas   of terms, and of floats                 formulas.py, reals.py, operators.py
ground     nodes of one graph, errors, work        nodes.py, errors.py, work.py
meaning/   the value at a point; bounds over a box
syntax/    from text, and to text
records/   what was declared, decided, answered and found, as data
"""
