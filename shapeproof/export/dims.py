"""How one entry of dynamic_shapes is written, and made anew."""

from __future__ import annotations

from typing import Any

from torch.export import Dim

from shapeproof.export import tracing


def declaration_text(entry: Any) -> str:
    """A dim, a hint or an int as it is written; torch's own repr of a Dim leaves out `min=2`.

    >>> declaration_text(Dim("n", min=2, max=8)), declaration_text(Dim.AUTO(min=1)), declaration_text(2 * Dim("n") + 1)
    ('Dim("n", min=2, max=8)', 'Dim.AUTO(min=1)', '2*n + 1')
    """
    if tracing.is_hint(entry):
        ends = _ends(*tracing.hint_bounds(entry))
        return f"Dim.{entry.type.name}({', '.join(ends)})" if ends else f"Dim.{entry.type.name}"
    if not tracing.is_dim(entry):
        return repr(entry)
    if tracing.dim_root(entry)[0] is not entry:
        return str(entry.__name__)
    lower, upper = tracing.dim_bounds(entry)
    ends = _ends(None if lower == 0 and upper is None else lower, upper)
    named = [f'"{entry.__name__}"', *ends]
    return f"Dim({', '.join(named)})"


def _ends(lower: int | None, upper: int | None) -> list[str]:
    return [f"{name}={value}" for name, value in (("min", lower), ("max", upper)) if value is not None]


def hint_within(hint: Any, lower: int | None, upper: int | None) -> Any:
    """The same hint with these bounds."""
    kind: Any = Dim.DYNAMIC if tracing.must_stay_dynamic(hint) else Dim.AUTO
    return kind(min=lower, max=upper)
