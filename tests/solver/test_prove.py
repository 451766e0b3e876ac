from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from shapeproof.constraints.evaluate import holds
from shapeproof.constraints.text import parse_formula as parse
from shapeproof.solver import prove
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide, truth
from tests.solver import corpus


@pytest.mark.parametrize(("text", "given"), corpus.PROVED, ids=[text[:60] for text, _ in corpus.PROVED])
def test_proved(text, given):
    assert prove(text, given=given).status == "proved"
