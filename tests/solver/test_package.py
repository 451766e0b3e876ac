from __future__ import annotations

import subprocess
import sys

import shapeproof.solver as package


def loaded_after(statement):
    code = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_importing_the_package_loads_neither_z3_nor_torch():
    assert not {"z3", "torch", "sympy"} & loaded_after("import shapeproof.solver")
    assert not {"z3", "torch", "sympy"} & loaded_after("from shapeproof.solver.budget import Budget")


def test_the_solver_never_loads_torch_or_sympy():
    names = ", ".join(package.__all__)
    modules = loaded_after(f"from shapeproof.solver import {names}")
    assert "z3" in modules
    assert not {"torch", "sympy"} & modules


def test_prove_is_a_function_whoever_imported_what_before():
    import shapeproof.solver.prove as module

    assert package.prove("n == n").status == module.prove("n == n").status == "proved"


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(package, "guess")
