"""The search for the user's functions asks no object for an attribute: some raise, whatever the name is."""

from __future__ import annotations

import collections
import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import torch
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.source.frames import is_users_file
from shapeproof.export.trace.python.builtins import kept_symbolic, users_functions


class Lazy:
    """As placeholders of libraries are: slots, and an error at any unknown name, `__dict__` included."""

    __slots__ = ()

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"{name} is not loaded yet")


class Guarded:
    """Its dict is not to be read."""

    @property
    def __dict__(self) -> dict[str, object]:  # type: ignore[override]
        raise RuntimeError("not now")


HELD = [Lazy(), Guarded()]


def test_a_users_module_may_hold_objects_that_raise_at_every_attribute():
    report = check(torch.nn.ReLU(), (torch.randn(3),), dynamic_shapes=({0: Dim("n", max=8)},))
    assert report.status == "proved"


def test_files_of_another_environments_libraries_are_not_the_users():
    assert is_users_file(__file__)
    assert not is_users_file(str(Path(sysconfig.get_paths()["purelib"]) / "library.py"))
    assert not is_users_file(str(Path(__file__).parent / "venv/lib/python3.11/site-packages/library/model.py"))


def test_a_model_of_another_environments_library_is_shown_at_its_own_line(tmp_path):
    """Where nothing of the user's runs, torch's own line was shown."""
    file = tmp_path / "site-packages" / "library.py"
    file.parent.mkdir()
    file.write_text(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + x.new_ones(3)\n"
    )
    library = importlib.util.module_from_spec(importlib.util.spec_from_file_location("library", file))
    library.__spec__.loader.exec_module(library)
    report = check(library.Model(), (torch.randn(3),), dynamic_shapes=({0: Dim("n", max=8)},))
    (diagnostic,) = report.diagnostics
    assert (diagnostic.file, diagnostic.line) == (str(file), 4)


def test_a_module_that_takes_the_place_of_a_librarys_is_looked_at_again(monkeypatch, tmp_path):
    def double(n):
        return 2 * n

    double.__code__ = double.__code__.replace(co_filename=str(tmp_path / "own.py"))
    for file in (str(Path(sysconfig.get_paths()["purelib"]) / "library.py"), str(tmp_path / "own.py")):
        module = ModuleType("replaced_by_the_user")
        module.__file__, module.double = file, double
        monkeypatch.setitem(sys.modules, module.__name__, module)
        assert (double in users_functions(torch.nn.ReLU())) is (file == double.__code__.co_filename)


def test_a_global_whose_values_raise_is_read_as_what_it_holds():
    """As `from transformers import *` brings: a dict that imports what it names when it is asked for its values."""

    class Lazy(collections.OrderedDict):
        def values(self):
            raise ValueError("not found")

        __len__ = __iter__ = values

    class Model(torch.nn.Module):
        def forward(self, x):
            return x * 2 if LAZY is not None else x  # noqa: F821 - put there below

    globals()["LAZY"] = Lazy()
    try:
        assert check(Model(), (torch.ones(3),)).status == "proved"
    finally:
        del globals()["LAZY"]


class Downloaded(torch.nn.Module):
    """Names a library where it is made, and nowhere else."""

    def __init__(self):
        super().__init__()
        self.size = int(torch.hub.os.environ.get("SIZE", "3"))

    def forward(self, x):
        return x * self.size


class MakesOne(torch.nn.Module):
    def forward(self, x):
        return Downloaded()(x)


def test_what_makes_a_model_is_read_only_where_the_model_makes_one():
    """The fault: of a model that its `__init__` can download, 5,060 functions of the downloader were read, not 11."""
    with kept_symbolic(Downloaded()) as names:
        assert "hub" not in names
    with kept_symbolic(MakesOne()) as names:
        assert "hub" in names
