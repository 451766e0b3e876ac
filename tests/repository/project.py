"""The project's own description, as the tests of this folder read it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
HOME = PROJECT["urls"]["Repository"]


def supported_pythons():
    """The releases of Python that `requires-python` lets in.

    >>> supported_pythons()[0]
    '3.11'
    """
    lowest, above = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()
    return [f"3.{minor}" for minor in range(int(lowest), int(above))]
