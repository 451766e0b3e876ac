"""The form of each operator at the bounds of its sizes, where rows would mix.

A size from data becomes its bound, and the number that it was a count beside it: the first rows are meant, the others
hold anything. *Law* of each form: the rows meant of its result are those that the operator gives of the rows meant of
its operands, at every count; where the operator raises, an assertion in the graph does. An operator that has no form
here, and keeps rows apart by no rule (row_by_row.py), has no place in a bounded program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shapeproof.export.build.static.masked_rows import ROWS
from shapeproof.export.build.static.masked_values import VALUES
from shapeproof.export.build.static.masking import Given

FORMS: Mapping[str, Callable[[Given], Any]] = {**ROWS, **VALUES}
"""The form of each operator; in place as out of place."""
