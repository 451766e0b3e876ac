"""The form at the bounds of each operator that would mix valid rows with others.

At the bounds, a size from data becomes its bound with a count beside it: the first `count` rows are valid, the others
hold arbitrary values. *Law* of each form, at every count: the valid rows of its result are the operator's result on the
valid rows of its operands; where the operator raises, an assertion in the graph raises. A bounded program may contain
only operators with a form here, or with a rule that they keep rows apart (row_by_row.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shapeproof.export.build.static.masked_rows import ROWS
from shapeproof.export.build.static.masked_values import VALUES
from shapeproof.export.build.static.masking import Given

FORMS: Mapping[str, Callable[[Given], Any]] = {**ROWS, **VALUES}
"""The form of each operator, for its in-place variant, too."""
