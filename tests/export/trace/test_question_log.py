"""What torch asks is logged with its answer, its step and the user's line. Law: who listens changes nothing."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from shapeproof.export import Dim, check

HERE = Path(__file__).name
LOGGER = "shapeproof.questions"


class Branch(torch.nn.Module):
    def forward(self, x):
        if x.shape[0] > 3:
            return x.view(2, -1)
        return x.reshape(2, -1)


def checked():
    return check(Branch(), (torch.ones(6),), dynamic_shapes={"x": {0: 2 * Dim("half", min=1, max=8)}})


def test_a_symbol_has_its_input_and_a_question_its_step_and_line(caplog):
    with caplog.at_level(logging.DEBUG, LOGGER):
        checked()
    line = Branch.forward.__code__.co_firstlineno + 1
    said = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    symbols = [each.split(" ", 2)[2] for each in said if each.startswith("create_symbol ")]
    assert all(each.startswith("= 2*half for L['x'].size()[0], ") for each in symbols)
    assert symbols
    asked = [each for each in said if each.startswith("torch asks half >= 2: ")]
    assert {each.partition(" by ")[2].partition(" at ")[0] for each in asked} == {"a decision", "facts"}
    assert all(f"{HERE}:{line}   if x.shape[0] > 3:" in each for each in asked)
    operators = [each for each in said if " in aten.view.default at " in each]
    assert any(f"{HERE}:{line + 1}   return x.view(2, -1)" in each for each in operators)


def test_who_listens_changes_nothing(caplog):
    unheard = checked()
    with caplog.at_level(logging.DEBUG, LOGGER):
        heard = checked()
    assert caplog.records
    assert (str(heard), heard.spent, heard.decisions) == (str(unheard), unheard.spent, unheard.decisions)


@pytest.mark.thorough
def test_torchs_own_switch_shows_our_questions_in_place_of_its_guards():
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
    program += "import torch\nfrom tests.export.trace.test_question_log import checked\nchecked()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=True, env=os.environ | {"TORCH_LOGS": "+dynamic"},
    )  # fmt: skip
    said = done.stderr.splitlines()
    assert any("shape_env.py:" in line and "] torch asks half >= 2: True by a decision at " in line for line in said)
    assert sum("create_symbol" in line for line in said) == sum(" for L['x'].size()[0], " in line for line in said) > 0
    assert not any("guard added" in line for line in said)
    assert len(said) == len({line.partition("] ")[0] + line for line in said})
