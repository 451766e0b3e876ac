"""The pytest plugin, in pytest runs of their own.

They are in this process, which need not load anything again: a run forgets what it was the first to import, so that all
of it is imported above.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import torch

from shapeproof.ci import pytest_items, pytest_plugin
from shapeproof.export import Dim

verify_export = pytest_plugin.verify_export
"""The fixture, whether the plugin is installed or not."""

pytest_plugins = "pytester"

NETS = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x * 100 if x.shape[0] == 1 else x + 1
"""
SPEC = """\
[dims.one]
min = 1
max = 8

[dims.two]
min = 2

[models.good]
target = "nets:Net"
inputs.x = { dtype = "float32", dims = ["two"] }

[models.bad]
target = "nets:Net"
inputs.x = { dtype = "float32", dims = ["one"] }
"""
PLAIN = "def test_plain(): pass"
# By name, whether this version is installed or not: installed, pytest would know the plugin as `shapeproof`.
PLUGIN = ("-p", "no:shapeproof", "-p", "shapeproof.ci.pytest_plugin", "-p", "no:cacheprovider")


def run(pytester, *arguments):
    assert pytest_items.__name__ in sys.modules
    return pytester.runpytest_inprocess(*PLUGIN, *arguments)


@pytest.mark.thorough
def test_each_model_is_a_test(pytester):
    pytester.makefile(".toml", shapeproof=SPEC, other="[models]")
    pytester.makepyprojecttoml("[tool.shapeproof]")
    pytester.mkdir("broken").joinpath("pyproject.toml").write_text("[", encoding="utf-8")
    pytester.makepyfile(nets=NETS, test_plain="def test_plain(verify_export): assert callable(verify_export)")
    done = run(pytester, "--shapeproof", "-v")
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(
        [
            "shapeproof.toml::good PASSED*",
            "shapeproof.toml::bad FAILED*",
            "expected is proved",
            "error?other-program?: the model does something else where `x.shape?0? == 1`",
            "*nets.py:5*",
        ]
    )
    done.stdout.no_fnmatch_line("*pytest_items*")


@pytest.mark.thorough
def test_a_verdict_that_still_holds_is_recalled(tmp_path):
    tmp_path.joinpath("shapeproof.toml").write_text(SPEC, encoding="utf-8")
    tmp_path.joinpath("nets.py").write_text(NETS, encoding="utf-8")

    def written():
        command = [sys.executable, "-m", "pytest", *PLUGIN, "--shapeproof", "-k", "good"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        (entry,) = tmp_path.joinpath(".shapeproof").glob("*.json")
        return entry.stat().st_mtime_ns

    first = written()
    assert written() == first


@pytest.mark.thorough
def test_a_failing_fixture_shows_no_log_of_torch(pytester):
    pytester.makepyfile(
        nets=NETS,
        test_net="import torch, nets\n"
        "def test_net(verify_export):\n"
        "    shapes = {'x': {0: torch.export.Dim('b', min=1, max=8)}}\n"
        "    verify_export(nets.Net(), (torch.ones(3, 4),), dynamic_shapes=shapes)\n",
    )
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    done.stdout.fnmatch_lines(["error[[]other-program[]]*"])
    done.stdout.no_fnmatch_line("*torch.__trace*")


def test_without_the_option_a_spec_is_no_test(pytester):
    pytester.makefile(".toml", shapeproof=SPEC)
    pytester.makepyfile(test_plain=PLAIN)
    run(pytester).assert_outcomes(passed=1)


@pytest.mark.thorough
def test_the_spec_at_the_root_is_seen_beside_testpaths(pytester):
    pytester.makepyprojecttoml(
        '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n[tool.shapeproof.models.net]\ntarget = "nets:absent"\n'
    )
    pytester.makepyfile(**{"nets": "", "tests/test_plain": PLAIN})
    done = run(pytester, "--shapeproof")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["`nets` has no `absent`"])


def test_a_malformed_spec_is_an_error_of_collection(pytester):
    pytester.makefile(".toml", shapeproof=SPEC + "expct = 1")
    done = run(pytester, "--shapeproof")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*shapeproof.toml:15: `models.bad.expct` is not a key*mean `expect`?"])
    done.stdout.no_fnmatch_line("*Traceback*")


class Branching(torch.nn.Module):
    def forward(self, x):
        return x * 100 if x.shape[0] == 1 else x + 1


def test_the_fixture_fails_with_the_report(verify_export):
    arguments = Branching(), (torch.ones(3),)
    assert verify_export(*arguments, dynamic_shapes=({0: Dim("b", min=2)},)).report.status == "proved"
    with pytest.raises(pytest.fail.Exception, match=r"(?s)^error\[other-program\]: .*\nrefuted: "):
        verify_export(*arguments, dynamic_shapes=({0: Dim("b", min=1)},))


def test_the_fixture_fails_with_one_sentence_where_the_call_cannot_be_meant(verify_export):
    with pytest.raises(pytest.fail.Exception, match=r"^args must be a tuple of example inputs, not Tensor$"):
        verify_export(Branching(), torch.ones(3))


class Sevens(torch.nn.Module):
    def forward(self, x):
        return x.view(7)


def test_the_fixture_fails_with_the_report_where_the_model_raises_for_the_example(verify_export):
    with pytest.raises(pytest.fail.Exception, match=r"error\[example\]: the model raises for the example"):
        verify_export(Sevens(), (torch.ones(6),))


def test_the_plugin_is_an_entry_point():
    document = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    (name,) = document["project"]["entry-points"]["pytest11"].values()
    assert hasattr(import_module(name), "pytest_addoption")


def test_the_plugin_loads_nothing_heavy():
    program = "import sys, shapeproof.ci.pytest_plugin as _; print({'torch', 'pydantic', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
