"""The spec file: which models are checked, at which sizes, and which verdict is expected.

The spec is TOML, as `shapeproof.toml` or under `[tool.shapeproof]` of a pyproject. The classes here are its grammar;
the JSON Schema for editors (`spec.schema.json`) is generated from them. An invalid spec raises one sentence with the
line at fault. Loading a spec loads no model.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from shapeproof.ci.specs.dims import check_dims
from shapeproof.ci.specs.spec_errors import SpecError, worded
from shapeproof.ci.specs.toml_lines import line_of
from shapeproof.constraints.errors import UsageError
from shapeproof.files import given_file

Status: TypeAlias = Literal["proved", "refuted", "undecided", "vacuous"]
Found: TypeAlias = Status | Literal["agrees"]
"""A verdict; `agrees` is for an operator that was run and not proved: no run differs."""
Dtype: TypeAlias = Literal[
    "bool", "uint8", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Size = Annotated[int, Field(ge=0, le=2**63 - 1)]
Positive = Annotated[int, Field(ge=1, le=2**63 - 1)]

_SHOWN = 600
"""Number of characters of an error message that are shown."""

DEFAULTS = ("shapeproof.toml", "pyproject.toml")
"""File names of the default spec: the first file that exists and contains a spec is used."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _knows_its_keys(cls, given: Any) -> Any:
        """Name the keys that there are where one is unknown; pydantic names only the unknown one."""
        for key in given if isinstance(given, dict) else ():
            if key not in cls.model_fields:
                raise PydanticCustomError("unknown_key", "unknown", {"key": key, "valid": list(cls.model_fields)})
        return given


class Dim(_Table):
    """A size that varies: every integer that all of these allow."""

    min: Size | None = None
    """The smallest; left out: 0, which may rise to 1 or 2 for the model's sake if `max` is left out, too."""
    max: Size | None = None
    """The greatest; left out: there is none."""
    multiple_of: Positive | None = None
    """What divides every value."""
    one_of: Annotated[list[Size], Field(min_length=1)] | None = None
    """The only values."""


class Input(_Table):
    """A tensor that the model takes."""

    dtype: Dtype
    """The name of its torch.dtype."""
    dims: list[Size | str]
    """Each size: a number, the name of a dim, or a dim with a factor and an offset, such as "2*batch + 1"."""


class Model(_Table):
    """A model to check."""

    target: Annotated[str, Field(pattern=r"^[^:\s]+:[^:\s]+$")]
    """`module.path:callable` or `path/to/file.py:callable`, called without arguments. With `inputs` it returns a module
    (or is the class of one); without, (model, args, kwargs, dynamic_shapes) or that and constraints."""
    inputs: Annotated[dict[Name, Input], Field(min_length=1)] | None = None
    """By the name of the parameter of `forward`."""
    seen: Annotated[str, Field(min_length=1)] | None = None
    """A profile of what the model was given (`Seen.save`), from the folder of the spec: all of it is to be served."""
    relations: list[str] = []
    """What else holds of the sizes, such as "batch*seq <= 65536"."""
    narrow: bool = False
    """Whether what the model does not support is left out of the declared sizes, and refused at run time."""
    branches: Literal["error", "split"] = "error"
    """Whether a model that takes sides by its sizes is refuted, or split into several programs."""
    expect: Status = "proved"
    """The verdict that passes."""
    accept_undecided: bool = False
    """Whether undecided passes, too: what is open is then refused at run time."""
    timeout: Annotated[int, Field(ge=1, le=2**31)] | None = None
    """Seconds that checking it may take; left out: what the command line says."""


class Operator(_Table):
    """An operator to hold against its fake kernel."""

    target: Annotated[str, Field(pattern=r"^[^:\s]+:[^:\s]+$")]
    """`module.path:callable` or `path/to/file.py:callable`, called without arguments: it returns the operator."""
    inputs: Annotated[dict[Name, Input], Field(min_length=1)]
    """The tensors that it takes, by the names in its schema."""
    values: dict[Name, bool | int | float | str] = {}
    """Its other arguments; those that are left out have their defaults."""
    relations: list[str] = []
    """What else holds of the sizes."""
    expect: Literal["proved", "agrees", "refuted", "undecided"] = "agrees"
    """The verdict that passes; where that is "agrees", proved passes, too."""
    timeout: Annotated[int, Field(ge=1, le=2**31)] | None = None
    """Seconds that checking it may take; left out: what the command line says."""


class Spec(_Table):
    """A shapeproof spec."""

    model_config = ConfigDict(
        **_Table.model_config, json_schema_extra={"anyOf": [{"required": ["models"]}, {"required": ["operators"]}]}
    )

    dims: dict[Name, Dim] = {}
    """The sizes that vary, by name; inputs refer to them."""
    models: Annotated[dict[str, Model], Field(min_length=1)] = {}
    """What to check, by a name for the report."""
    operators: Annotated[dict[str, Operator], Field(min_length=1)] = {}
    """Operators to hold against their fake kernels, by a name for the report, which is `operators.NAME`."""

    @model_validator(mode="after")
    def _is_about_something(self) -> Spec:
        if not self.models and not self.operators:
            raise PydanticCustomError("nothing", "there is nothing to check")
        return self


@dataclass(frozen=True, slots=True)
class SpecFile:
    """A spec with its file."""

    path: Path
    spec: Spec
    text: str
    prefix: tuple[str, ...] = ()

    def line(self, *keys: str | int) -> int:
        """Return the line of the key, or of the nearest table above it."""
        for length in range(len(keys), 0, -1):
            if (line := line_of(self.text, [*self.prefix, *keys[:length]])) > 1:
                return line
        return 1


def load_specs(paths: list[Path]) -> list[SpecFile]:
    """Load the specs at these paths; without paths, the spec in the working directory.

    Raises:
        UsageError: a file cannot be read, or is no spec.
    """
    if paths:
        return [load_spec(path) for path in {path.resolve(): path for path in paths}.values()]
    found = find_spec(Path())
    if found is None:
        raise UsageError("there is no shapeproof.toml here, and no pyproject.toml with [tool.shapeproof]")
    return [load_spec(found)]


def find_spec(folder: Path) -> Path | None:
    """Find the spec of a folder: shapeproof.toml, or else a pyproject.toml that contains one.

    Raises:
        UsageError: a pyproject.toml cannot be read.
    """
    for path in (folder / name for name in DEFAULTS):
        if path.is_file() and (path.name != "pyproject.toml" or "shapeproof" in _tools(_parsed(path, text_of(path)))):
            return path
    return None


def load_spec(path: Path) -> SpecFile:
    """Load the spec in a file; in a pyproject.toml, its table [tool.shapeproof].

    Raises:
        UsageError: the file cannot be read, or is no spec; the message names file and line.
    """
    text = text_of(path)
    document: Any = _parsed(path, text)
    prefix: tuple[str, ...] = ()
    if path.name == "pyproject.toml":
        prefix, document = ("tool", "shapeproof"), _tools(document).get("shapeproof")
        if document is None:
            raise UsageError(f"{path} has no table [tool.shapeproof]")
    try:
        file = SpecFile(path, parse_spec(document), text, prefix)
    except SpecError as error:
        line = line_of(text, [*prefix, *error.path])
        raise UsageError(f"{path}:{line}: {_short(str(error))}") from None
    return file


def _short(message: str) -> str:
    """Shorten a message: the wrong value that it quotes may be very long."""
    return message if len(message) <= _SHOWN else f"{message[: _SHOWN // 2]} ... {message[-_SHOWN // 2 :]}"


def parse_spec(document: Mapping[str, Any]) -> Spec:
    """Validate a parsed TOML document as a spec.

    >>> spec = parse_spec({"models": {"net": {"target": "package.module:build"}}})
    >>> spec.models["net"].expect
    'proved'

    Raises:
        SpecError: the document is no spec; `path` leads to the fault.
    """
    try:
        spec = Spec.model_validate(document)
    except ValidationError as error:
        raise worded(error, document) from None
    check_dims(spec.dims, {"models": spec.models, "operators": spec.operators})
    return spec


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec."""
    closed: dict[str, Any] = _closed(Spec.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | closed


def _closed(node: Any) -> Any:
    """Forbid other keys in tables whose keys have a pattern; pydantic checks this but does not write it."""
    if isinstance(node, list):
        return [_closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    rest = {"additionalProperties": False} if "patternProperties" in node else {}
    return {key: _closed(value) for key, value in node.items()} | rest


def text_of(path: Path) -> str:
    """Return the text of a spec file.

    Raises:
        UsageError: the file cannot be read, or is not UTF-8.
    """
    try:
        return given_file(path).decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError:
        raise UsageError(f"{path} cannot be read: it is not UTF-8") from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, line = _split(str(error), text)
        raise UsageError(f"{path}:{line}: this is not TOML: {message}") from None
    except ValueError:
        raise UsageError(f"{path}:1: this has an integer of too many digits to be read") from None
    except RecursionError:
        raise UsageError(f"{path}:1: this is nested too deeply to be read") from None


def _split(message: str, text: str) -> tuple[str, int]:
    """Split a message of the TOML parser into text and line; "at end of document" is the last line."""
    found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", message)
    what, line = found.groups() if found else (message, None)
    return what, int(line) if line else text.rstrip().count("\n") + 1


def _tools(document: Mapping[str, Any]) -> Mapping[str, Any]:
    tools = document.get("tool")
    return tools if isinstance(tools, dict) else {}
