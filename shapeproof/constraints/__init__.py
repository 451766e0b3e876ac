"""The language of constraints: terms, formulas, their meaning, and plain records. Imports only the standard library.

terms      integers, and what they are made of     terms.py, atoms.py, polynomials.py, division.py, bits.py
formulas   of terms, and of floats                 formulas.py, reals.py, operators.py
ground     interned nodes, errors, work counters   nodes.py, errors.py, work.py
meaning/   the value at a point; bounds over a box
syntax/    from text, and to text
records/   declarations, guards, verdicts and diagnostics as data

Layering: this room describes questions and answers; the rooms above decide them.
"""

from shapeproof.constraints.syntax import text as text  # every node prints by it
