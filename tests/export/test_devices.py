"""No tensor of the exporter is made on whatever device happens to be torch's default one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "shapeproof" / "export"
MAKERS = frozenset(
    [
        *("Generator", "as_tensor", "asarray", "from_numpy", "scalar_tensor", "tensor"),
        *("arange", "empty", "empty_strided", "eye", "full", "hann_window", "linspace", "logspace", "ones", "zeros"),
        *("rand", "randint", "randn", "randperm", "tril_indices", "triu_indices"),
    ]
)
ON_ANOTHERS = {
    ("ops/decompositions.py", "linspace"): "the caller's options have the device; without one, it is eager's default",
    ("ops/rewritten.py", "fftfreq"): "as above",
    ("ops/rewritten.py", "rfftfreq"): "as above",
    ("ops/rewritten.py", "hamming_window"): "as above",
}


def made_without_a_device(source: str) -> list[tuple[str, str]]:
    """The function that makes a tensor without naming its device, and what it calls.

    >>> made_without_a_device("def f(n): return torch.ones(n), torch.zeros(n, device='cpu')")
    [('f', 'ones')]
    """
    functions = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef)]
    calls = ((function, each) for function in functions for each in ast.walk(function) if isinstance(each, ast.Call))
    return [(function.name, str(made)) for function, call in calls if (made := _made(call)) is not None]


def _made(call: ast.Call) -> str | None:
    func = call.func
    of_torch = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "torch"
    named = any(each.arg == "device" for each in call.keywords)
    return func.attr if of_torch and func.attr in MAKERS and not named else None  # type: ignore[attr-defined]


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_tensor_is_made_on_a_named_device():
    found = {
        (str(path.relative_to(PACKAGE)), function)
        for path in FILES
        for function, _ in made_without_a_device(path.read_text())
    }
    assert found == set(ON_ANOTHERS)


@pytest.mark.quick
@pytest.mark.parametrize(
    "call", ["torch.tensor([1])", "torch.randn(2, generator=g)", "torch.Generator().manual_seed(0)"]
)
def test_a_call_without_a_device_is_seen(call):
    assert [name for _, name in made_without_a_device(f"def f(g):\n    return {call}")]
