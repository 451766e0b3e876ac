"""Words the fault of an invalid spec: one sentence with the key at fault and the nearest valid choice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from shapeproof.constraints.errors import UsageError, nearest

FORM = "module.path:callable or path/to/file.py:callable"
"""The form of a target."""


class SpecError(UsageError):
    """An invalid spec; `path` leads to the fault."""

    def __init__(self, message: str, path: Iterable[str | int]) -> None:
        super().__init__(message)
        self.path = tuple(path)


def worded(error: ValidationError, document: Any) -> SpecError:
    """Word one fault as a sentence: a misspelt key comes before the key that is missing because of it."""
    errors = error.errors(include_url=False)
    first = next((each for each in errors if each["type"] == "unknown_key"), errors[0])
    path = _present(first["loc"], document)
    match first["type"]:
        case "unknown_key":
            key, valid = first["ctx"]["key"], first["ctx"]["valid"]
            return SpecError(f"{_dotted((*path, key))} is not a key of a spec{nearest(key, valid)}", (*path, key))
        case "nothing":
            return SpecError("the spec has no `models`, which it needs", path)
        case "missing":
            return SpecError(f"{_dotted(path)} has no `{first['loc'][-1]}`, which it needs", path)
        case "string_pattern_mismatch" if first["loc"][-1] == "[key]":
            return SpecError(f"{_dotted(path)} is not a name: letters, digits and underscores make one", path)
        case "string_pattern_mismatch":
            return SpecError(f"{_dotted(path)} is not of the form {FORM}: {_brief(first['input'])}", path)
        case "too_short":
            return SpecError(f"{_dotted(path)} is empty", path)
        case "literal_error":
            valid = first["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
            return SpecError(
                f"{_dotted(path)} cannot be {_brief(first['input'])}{nearest(str(first['input']), valid)}", path
            )
        case _:
            wanted = " or ".join(_wanted(each) for each in errors if _present(each["loc"], document) == path)
            return SpecError(f"{_dotted(path)} must be {wanted}, but it is {_brief(first['input'])}", path)


_SHOWN = 80
"""Number of characters shown of an invalid value."""

_KINDS = {
    "int_type": "an integer",
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
}


def _wanted(error: ErrorDetails) -> str:
    if error["type"] == "greater_than_equal":
        return f"an integer of at least {error['ctx']['ge']}"
    if error["type"] == "less_than_equal":
        return f"an integer of at most {error['ctx']['le']}"
    return _KINDS.get(error["type"], "something else")


def _brief(value: object) -> str:
    """Describe an invalid value in a few words."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return "an integer of more than 40 digits"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _dotted(path: tuple[str | int, ...]) -> str:
    return f"`{'.'.join(map(str, path))}`" if path else "the spec"


def _present(loc: tuple[str | int, ...], document: Any) -> tuple[str | int, ...]:
    """Return the part of an error's location that is in the document; the rest names alternatives or missing keys."""
    path: list[str | int] = []
    for key in loc:
        inside = isinstance(document, dict) and key in document
        if not inside and not (isinstance(document, list) and isinstance(key, int)):
            break
        document = document[key]
        path.append(key)
    return tuple(path)
