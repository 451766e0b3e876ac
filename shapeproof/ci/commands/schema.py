"""`shapeproof schema` prints the JSON Schema of a spec file."""

from __future__ import annotations

import json

from shapeproof.ci.specs import spec
from shapeproof.ci.terminal import show

EXAMPLES = "Example: shapeproof schema > spec.schema.json"


def schema() -> None:
    """Print the JSON Schema of a spec, by which an editor completes and checks one."""
    show(json.dumps(spec.schema(), indent=1))
