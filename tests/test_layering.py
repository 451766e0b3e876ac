"""The boundaries of the rooms, from ci, ship, serve and operators down to constraints; what each may load.

Held twice. The source is read, so that an import inside a function counts too; and each lower room is imported in a
fresh interpreter, so that what comes in through third parties counts too.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.layering import PRIVATE_TORCH_ALLOWED, ROOMS, module_name, private_torch_names, upward_imports

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "shapeproof"
HEAVY = ("torch", "z3", "sympy")

LONGEST_FILE = 500
LONG_FILES: frozenset[str] = frozenset()
"""Files that may be longer, each with its reason beside it. Empty, and meant to stay so."""

LONGEST_FUNCTION = 45
"""With its signature and docstring."""

MOST_FILES = 13
"""In one folder, without its `__init__.py`."""


def sources(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def room_modules(room):
    return [module_name(path, ROOT).removesuffix(".__init__") for path in sources(f"shapeproof/{room}")]


def loads(*modules, heavy=HEAVY):
    """Which of the heavy packages a fresh interpreter has loaded after importing these modules."""
    program = (
        "import importlib, json, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        f"print(json.dumps([name for name in {heavy!r} if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_package_alone_loads_nothing_heavy():
    assert loads("shapeproof") == set()


def test_every_room_is_a_package():
    for room in ROOMS:
        assert (PACKAGE / room / "__init__.py").exists(), f"shapeproof/{room} has no __init__.py"


def test_constraints_load_the_standard_library_only():
    assert loads(*room_modules("constraints")) == set()


def test_the_contract_loads_the_standard_library_only():
    assert loads(*room_modules("contract"), heavy=(*HEAVY, "numpy", "pydantic", "rich", "typer")) == set()


def test_solver_loads_neither_torch_nor_sympy():
    assert loads(*room_modules("solver")) <= {"z3"}


def test_seen_loads_neither_torch_nor_the_solver():
    assert loads(*room_modules("seen")) == set()


def test_an_export_that_reads_no_file_loads_nothing_that_validates_or_renders():
    assert loads("shapeproof.export.api", heavy=("pydantic", "rich", "typer", "jinja2")) == set()


def test_naming_the_rooms_loads_nothing_heavy():
    assert loads(*(f"shapeproof.{room}" for room in ROOMS)) == set()


def test_the_loading_check_sees_what_is_loaded():
    assert loads("sympy") == {"sympy"}


def test_no_room_imports_a_room_above_it():
    found = {
        str(path.relative_to(ROOT)): names
        for room in ROOMS
        for path in sources(f"shapeproof/{room}")
        if (names := upward_imports(path.read_text(encoding="utf-8"), module_name(path, ROOT)))
    }
    assert found == {}


@pytest.mark.parametrize(
    "violation",
    [
        "import shapeproof.export",
        "import shapeproof.ci.cli as cli",
        "from shapeproof.export.trace.tracer import trace",
        "from shapeproof import export",
        "from .. import export",
        "from ..export import export",
        "def late():\n    from shapeproof.export import export",
    ],
)
def test_the_import_check_sees_a_violation(violation):
    assert upward_imports(violation, "shapeproof.solver.prove")


@pytest.mark.parametrize(
    "allowed", ["import shapeproof.constraints", "from . import facts", "from ..constraints import terms"]
)
def test_the_import_check_lets_the_rest_pass(allowed):
    assert upward_imports(allowed, "shapeproof.solver.prove") == []
    assert upward_imports(allowed, "shapeproof.solver.__init__") == []


def test_private_names_of_torch_stay_in_the_shim():
    found = {
        str(path.relative_to(ROOT)): names
        for path in sources("shapeproof")
        if not path.relative_to(ROOT).as_posix().startswith(PRIVATE_TORCH_ALLOWED)
        and (names := private_torch_names(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "violation",
    [
        "import torch._guards",
        "from torch._subclasses import FakeTensorMode",
        "from torch.utils import _pytree as pytree",
        "import torch.utils._pytree",
        "from torch.fx.experimental.symbolic_shapes import ShapeEnv",
        "from torch.fx import experimental",
        "import torch\ntorch._assert_async(True)",
        "import torch as t\nt.fx.experimental.proxy_tensor",
        "import torch.export as e\ne._trace",
        "from torch import export\nexport._trace.x",
    ],
)
def test_the_private_name_check_sees_a_violation(violation):
    assert private_torch_names(violation)


@pytest.mark.parametrize(
    "allowed",
    [
        "import torch\ntorch.__version__",
        "from torch.export import Dim\nDim.__name__",
        "import torchvision._x",
        "self._torch = 1",
    ],
)
def test_the_private_name_check_lets_the_rest_pass(allowed):
    assert private_torch_names(allowed) == []


def test_no_file_is_too_long():
    found = {
        path.relative_to(ROOT).as_posix(): length
        for path in sources("shapeproof", "tests", "benchmarks", "examples")
        if (length := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_FILE
    }
    assert found.keys() <= LONG_FILES, found


def test_no_function_is_too_long():
    found = {
        f"{path.relative_to(ROOT)}: {node.name}": length
        for path in sources("shapeproof")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > LONGEST_FUNCTION
    }
    assert found == {}


def test_the_list_of_long_files_is_not_stale():
    assert all((ROOT / name).exists() for name in LONG_FILES)


def test_no_room_of_the_tests_of_export_has_more_files_than_a_person_can_hold_in_their_head():
    folders = {path.parent for path in (ROOT / "tests" / "export").rglob("*.py")}
    counts = {str(folder.relative_to(ROOT)): len(list(folder.glob("test_*.py"))) for folder in folders}
    assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}


def test_the_tests_of_export_stand_in_rooms_that_export_has():
    rooms = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests" / "export").rglob("test_*.py")}
    extra = {str(room) for room in rooms if not (PACKAGE / room / "__init__.py").is_file()}
    assert extra == {"export/shim/canaries"}


def room_folders():
    """Every folder of the package, with its modules."""
    for init in sorted(PACKAGE.rglob("__init__.py")):
        yield init, sorted(path for path in init.parent.glob("*.py") if path.name != "__init__.py")


def test_each_room_names_its_files_and_rooms_in_its_table():
    for init, modules in room_folders():
        if init.parent == PACKAGE:
            continue
        table = init.read_text(encoding="utf-8")
        rooms = [f"{path.parent.name}/" for path in init.parent.glob("*/__init__.py")]
        missing = [name for name in (*(path.name for path in modules), *rooms) if name not in table]
        assert not missing, f"{init.relative_to(ROOT)} does not say what these are for: {missing}"


def test_no_table_names_a_file_that_is_not_there():
    files = {path.name for path in PACKAGE.rglob("*.py")}
    for init, _ in room_folders():
        text = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
        assert set(re.findall(r"[a-z_]+\.py", text)) <= files, init


def test_no_room_has_more_files_than_a_person_can_hold_in_their_head():
    found = {str(init.parent.relative_to(ROOT)): len(modules) for init, modules in room_folders()}
    assert {room: count for room, count in found.items() if count > MOST_FILES} == {}
