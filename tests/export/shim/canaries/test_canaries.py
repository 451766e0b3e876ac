"""What the rooms shim and trace rely on in torch's private parts, one small test for each fact.

A test that fails with a new torch release names who relied on the fact. Nothing of shapeproof runs here. What is relied
on before and around a trace is in test_canaries_declarations.py.
"""

from __future__ import annotations

import copy
import inspect
import io
import operator
import subprocess
import sys

import pytest
import sympy
import torch
import torch.utils._pytree as pytree
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import (
    ShapeEnv,
    guard_or_false,
    guard_or_true,
    statically_known_true,
)
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._sympy.symbol import SymT, make_symbol, symbol_is_type

from shapeproof.export.source.frames import failing_answer


class Nothing:
    """Stands where torch's exporter looks for DimConstraints."""

    def __init__(self):
        self.consulted = []

    def solve(self):
        self.consulted.append("solve")

    def forced_specializations(self):
        self.consulted.append("forced_specializations")
        return {}

    def prettify_results(self, *_):
        self.consulted.append("prettify_results")
        return ""


class Recorder(ShapeEnv):
    """A ShapeEnv that notes what it is asked, and produces no guards."""

    def __init__(self):
        super().__init__(
            tracked_fakes=[],
            specialize_zero_one=False,
            duck_shape=False,
            prefer_deferred_runtime_asserts_over_guards=True,
            trace_asserts=True,
        )
        self.created = []
        self.evaluated = []
        self.checked = []
        self.ranges = []
        self.nothing = Nothing()

    def create_symbol(self, val, source, *args, **kwargs):
        self.created.append((val, source))
        return super().create_symbol(val, source, *args, **kwargs)

    def evaluate_expr(
        self, orig_expr, hint=None, fx_node=None, size_oblivious=False, fallback_value=None, *, forcing_spec=False
    ):
        self.evaluated.append((orig_expr, fallback_value))
        return super().evaluate_expr(
            orig_expr, hint, fx_node, size_oblivious, fallback_value, forcing_spec=forcing_spec
        )

    def guard_or_defer_runtime_assert(self, orig_expr, msg, fx_node=None):
        self.checked.append(orig_expr)
        return super().guard_or_defer_runtime_assert(orig_expr, msg, fx_node)

    def constrain_symbol_range(self, s, compiler_min, compiler_max):
        self.ranges.append((s, compiler_min, compiler_max))
        super().constrain_symbol_range(s, compiler_min, compiler_max)

    def produce_guards(self, *_, **__):
        self.dim_constraints = self.nothing
        return []


class Mode(FakeTensorMode):
    """A FakeTensorMode that notes the operators it runs."""

    def __init__(self, shape_env):
        super().__init__(allow_non_fake_inputs=True, export=True)
        self.static_shapes = False
        self.shape_env = shape_env
        self.ran = []

    def dispatch(self, func, types, args=(), kwargs=None):
        self.ran.append(str(func))
        return super().dispatch(func, types, args, kwargs or {})


def trace(model, args, shapes=None, kwargs=None):
    """The program of a model, and the Recorder and the Mode that it was traced with."""
    env = Recorder()
    mode = Mode(env)
    with tracing(TracingContext(mode)):
        program = torch.export.export(model, args, kwargs, dynamic_shapes=shapes)
    return program, env, mode


def module(forward):
    """A module with this forward, which takes no self."""
    return type("Model", (torch.nn.Module,), {"forward": staticmethod(forward)})()


def fake_values(program):
    return [
        value
        for node in program.graph.nodes
        for value in pytree.tree_leaves(node.meta.get("val"))
        if isinstance(value, FakeTensor)
    ]


ROWS = {"x": {0: Dim.AUTO}}


# ---------------------------------------------------------------------- the way in


def test_export_takes_the_fake_mode_of_the_tracing_context():
    """tracer.trace relies on it: this is how its ShapeEnv comes to be asked."""
    program, env, mode = trace(module(lambda x: x + 1), (torch.ones(4, 3),), ROWS)
    assert fake_values(program)
    assert all(value.fake_mode is mode and value.fake_mode.shape_env is env for value in fake_values(program))


def test_strict_export_does_not_take_it():
    """tracer.trace relies on nothing here: with strict=True the questions of a trace go elsewhere."""
    env = Recorder()
    with tracing(TracingContext(Mode(env))), pytest.raises(Exception):  # noqa: B017, PT011 - whatever torch makes of it
        torch.export.export(module(lambda x: x + 1), (torch.ones(4, 3),), dynamic_shapes=ROWS, strict=True)


def test_every_operator_is_dispatched_by_name_with_its_results():
    """tracing.RecordingFakeMode and output_sizes.py rely on it: operators are known as `aten.nonzero.default`."""
    _, _, mode = trace(module(lambda x: x.relu().nonzero()), (torch.ones(4, 3),), ROWS)
    assert {"aten.relu.default", "aten.nonzero.default"} <= set(mode.ran)


def test_operands_are_dispatched_by_position():
    """output_sizes.py relies on it: operand 0 is the tensor, and operand 1 of masked_select is the mask."""
    seen = {}

    class Listening(Mode):
        def dispatch(self, func, types, args=(), kwargs=None):
            seen[str(func)] = len(args), dict(kwargs or {})
            return super().dispatch(func, types, args, kwargs)

    with Listening(ShapeEnv()) as mode:
        x = mode.from_tensor(torch.ones(4))
        torch.masked_select(x, mask=x > 0)
        torch.nonzero(input=x)
        x.sum().item()
    assert seen["aten.masked_select.default"] == (2, {})
    assert seen["aten.nonzero.default"] == (1, {})
    assert seen["aten._local_scalar_dense.default"] == (1, {})


# ---------------------------------------------------------------------- questions


def test_a_check_is_a_deferred_assertion():
    """shape_env.guard_or_defer_runtime_assert relies on it: torch._check asks there and does not branch."""
    check = module(lambda x: (torch._check(x.shape[0] % 2 == 0), x + 1)[1])
    _, env, _ = trace(check, (torch.ones(4, 3),), ROWS)
    symbol = env.source_to_var["L['x'].size()[0]"]
    asked = [expr for expr in env.checked if str(expr) == f"Eq(Mod({symbol}, 2), 0)"]
    assert asked
    assert not [expr for expr, _ in env.evaluated if expr in asked]


def test_a_branch_is_evaluated_without_fallback():
    """shape_env.evaluate_expr relies on it: no fallback means that Python takes a side."""
    _, env, _ = trace(module(lambda x: x + 1 if x.shape[0] > 2 else x), (torch.ones(4, 3),), ROWS)
    symbol = env.source_to_var["L['x'].size()[0]"]
    assert (symbol > 2, None) in env.evaluated


@pytest.mark.parametrize(("ask", "fallback"), [(guard_or_false, False), (guard_or_true, True)])
def test_a_size_oblivious_question_passes_its_fallback(ask, fallback):
    """shape_env.evaluate_expr relies on it: a fallback means that the answer is assumed."""
    _, env, _ = trace(module(lambda x: x + 1 if ask(x.shape[0] == 7) else x), (torch.ones(4, 3),), ROWS)
    symbol = env.source_to_var["L['x'].size()[0]"]
    assert (sympy.Eq(symbol, 7), fallback) in env.evaluated


@pytest.mark.parametrize("known", [sympy.true, sympy.false, None])
def test_statically_known_true_asks_maybe_evaluate_static(known):
    """shape_env._maybe_evaluate_static relies on it: what is known is said there, and None is no knowledge."""
    asked = []

    class Knowing(ShapeEnv):
        def _maybe_evaluate_static(self, expr, **_):
            asked.append(expr)
            return known

    env = Knowing(specialize_zero_one=False, duck_shape=False)
    size = env.create_unbacked_symint()
    assert statically_known_true(size > 3) is (known == sympy.true)
    assert asked == [size.node.expr > 3]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("statement", "side"), [("assert v", False), ("assert not v", True), ("assert 1 < v < 3", False), ("v and 1", None)]
)
def test_python_asks_at_the_jump_of_an_assert_statement(statement, side):
    """frames.failing_answer relies on it."""
    scope = {}
    exec(f"def asks(v):\n    {statement}", scope)  # noqa: S102 - pytest rewrites the asserts of this file

    class Value:
        def __lt__(self, other):
            return self

        __gt__ = __lt__

        def __bool__(self):
            found.append(failing_answer(sys._getframe(1)))
            return side is False

    found = []
    scope["asks"](Value())
    assert set(found) == {side}


def test_evaluate_expr_has_the_signature_that_is_overridden():
    """shape_env.evaluate_expr relies on it: arguments come by these names and in this order."""
    names = list(inspect.signature(ShapeEnv.evaluate_expr).parameters)
    assert names == ["self", "orig_expr", "hint", "fx_node", "size_oblivious", "fallback_value", "forcing_spec"]
    assert list(inspect.signature(ShapeEnv.guard_or_defer_runtime_assert).parameters) == [
        "self",
        "orig_expr",
        "msg",
        "fx_node",
    ]


# ---------------------------------------------------------------------- symbols


def test_sizes_strides_and_offsets_are_created_by_source():
    """shape_env._declared relies on it: which size of which input a symbol is for is read off its source."""
    nested = module(lambda x: x["k"][0] + 1)
    gappy = torch.ones(100).as_strided((4, 3), (7, 2), 5)
    _, env, _ = trace(nested, ({"k": [gappy]},), {"x": {"k": [{0: Dim.AUTO, 1: Dim.AUTO}]}})
    created = {source.name: (val, source.prop.name, source.idx, source.base.name) for val, source in env.created}
    base = "L['x']['k'][0]"
    assert created[f"{base}.size()[0]"] == (4, "SIZE", 0, base)
    assert created[f"{base}.size()[1]"] == (3, "SIZE", 1, base)
    assert created[f"{base}.stride()[0]"] == (7, "STRIDE", 0, base)
    assert created[f"{base}.storage_offset()"] == (5, "STORAGE_OFFSET", None, base)


def test_an_int_input_is_created_by_its_own_name():
    """shape_env._declared relies on it: an int input's source is the input, without a property."""
    shapes = {"x": None, "n": Dim.AUTO}
    _, env, _ = trace(module(lambda x, n: x * n), (torch.ones(4), 5), shapes)
    assert [(val, source.name) for val, source in env.created if not hasattr(source, "prop")] == [(5, "L['n']")]


def test_a_symbol_of_an_input_needs_these_tables():
    """shape_env._create relies on it: what torch notes of a new symbol, it notes in these."""
    _, env, _ = trace(module(lambda x: x + 1), (torch.ones(4, 3),), ROWS)
    symbol = env.source_to_var["L['x'].size()[0]"]
    assert env.backed_var_to_val[symbol] == 4
    assert [source.name for source in env.var_to_sources[symbol]] == ["L['x'].size()[0]"]
    assert env.var_to_range[symbol].lower == 0
    assert symbol in env.symbol_guard_counter
    assert symbol_is_type(symbol, SymT.SIZE)


def test_symbols_are_named_by_type_and_number():
    """shape_env._create and ._defer rely on it: sizes are s7, data is u0 (an int) or zuf0 (a float)."""
    size = make_symbol(SymT.SIZE, 7, integer=True, nonnegative=True)
    assert (size.name, size.is_nonnegative, size.is_positive) == ("s7", True, None)
    env = ShapeEnv()
    assert env.create_unbacked_symint().node.expr.name == "u0"
    assert env.create_unbacked_symfloat().node.expr.name == "zuf0"
    assert isinstance(env._generate_unique_id("L['x'].size()[0]"), int)


def test_a_positive_symbol_would_fold_its_own_bound():
    """shape_env._create relies on it: sympy is told nonnegative only, or the assertion `1 <= s` would vanish."""
    told = sympy.Symbol("s", integer=True, positive=True)
    untold = sympy.Symbol("s", integer=True, nonnegative=True)
    assert sympy.Le(1, told) is sympy.true
    assert sympy.Le(1, untold) not in {sympy.true, sympy.false}


def test_an_operator_bounds_its_fresh_symbol():
    """shape_env.constrain_symbol_range relies on it: constant bounds of data-dependent sizes arrive there."""
    _, env, _ = trace(module(lambda x: x.nonzero()), (torch.ones(4),), ROWS)
    (symbol, lower, upper) = env.ranges[0]
    assert symbol_is_type(symbol, SymT.UNBACKED_INT)
    assert (lower, upper > 2**60) == (0, True)


def test_an_operator_that_binds_a_fresh_symbol_says_so():
    """equivalence.py relies on it: `unbacked_bindings` tells a data-dependent size from a computed one."""
    program, _, _ = trace(module(lambda x: x.relu().nonzero()), (torch.ones(4),), ROWS)
    bound = {
        str(node.target): bool(node.meta.get("unbacked_bindings"))
        for node in program.graph.nodes
        if node.op == "call_function"
    }
    assert bound["aten.nonzero.default"]
    assert not bound["aten.relu.default"]


def test_deferred_assertions_go_into_the_graph_after_their_last_symbol():
    """shape_env._defer relies on it: what is deferred under a symbol is asserted by the program."""
    program, env, _ = trace(
        module(lambda x: (rows := x.nonzero(), torch._check(rows.shape[0] >= 3), rows.sum())[2]),
        (torch.ones(4),),
        ROWS,
    )
    ((symbol, (check, *_)),) = [(s, c) for s, c in env.deferred_runtime_asserts.items() if s is not None and c]
    assert symbol_is_type(symbol, SymT.UNBACKED_INT)
    assert check.expr == sympy.Le(3, symbol)
    targets = [str(node.target) for node in program.graph.nodes]
    assert "aten._assert_scalar.default" in targets[targets.index("aten.nonzero.default") :]
    with pytest.raises(RuntimeError, match="u0 >= 3"):
        program.module()(torch.tensor([1.0, 0, 0, 0]))


# ---------------------------------------------------------------------- after the trace


def test_without_guards_the_exporter_consults_only_the_stub():
    """shape_env.produce_guards relies on it: nothing else of torch finds a violation."""
    shapes = {"x": {0: Dim("b", min=3, max=8)}}
    _, env, _ = trace(module(lambda x: x + 1 if x.shape[0] == 4 else x), (torch.ones(4),), shapes)
    assert env.nothing.consulted == ["solve", "forced_specializations", "prettify_results"]


@pytest.mark.thorough
def test_an_exported_program_is_its_dict():
    """program.VerifiedProgram relies on it: an instance of a subclass over the same state is the same program."""

    class Carrier(torch.export.ExportedProgram):
        pass

    program, _, _ = trace(module(lambda x: x + 1), (torch.ones(4),), ROWS)
    carrier = Carrier.__new__(Carrier)
    carrier.__dict__.update(program.__dict__)
    assert torch.equal(carrier.module()(torch.ones(6)), torch.full((6,), 2.0))
    assert isinstance(carrier.run_decompositions(), torch.export.ExportedProgram)


def test_inputs_come_last_and_in_order_among_the_placeholders():
    """contract._Writer and tracing._bind rely on it: parameters first, then args, then keywords as they were given."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))
            self.register_buffer("shift", torch.ones(3))

        def forward(self, a, b, *, c, d):
            return a * self.weight + b + self.shift + c + d + torch.tensor(2.0)

    ones = torch.ones(4, 3)
    program, _, _ = trace(Model(), (ones, ones), None, {"d": ones, "c": ones})
    names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    assert names[-4:] == ["a", "b", "d", "c"]


FORMS = {
    "module": lambda program: program.module(),
    "unflatten": torch.export.unflatten,
    "decomposed": lambda program: program.run_decompositions().module(),
    "decomposed, unflatten": lambda program: torch.export.unflatten(program.run_decompositions()),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_assertion_on_a_size_in_the_graph_is_executed(form):
    """assertions.py relies on it: an `_assert_scalar` is kept wherever a guard would be dropped.

    `run_decompositions` traces again, and the text is then what the ShapeEnv passes on: torch's own makes a new one.
    """
    program, _, _ = trace(module(lambda x: x + 1), (torch.ones(4, 3),), ROWS)
    _assert_rows(program, 5, "rows may not be five")
    run = FORMS[form](program)
    assert run(torch.ones(6, 3)).shape == (6, 3)
    text = r"rows may not be five" if "decomposed" not in form else r"Ne\(s\d+, 5\)"
    with pytest.raises(RuntimeError, match=text):
        run(torch.ones(5, 3))


def _assert_rows(program, forbidden, text):
    """Put `x.shape[0] != forbidden` into the graph."""
    graph = program.graph_module.graph
    x = next(node for node in graph.nodes if node.op == "placeholder")
    size = _add(graph, x, torch.ops.aten.sym_size.int, (x, 0), x.meta["val"].shape[0])
    differs = _add(graph, size, operator.ne, (size, forbidden), size.meta["val"] != forbidden)
    _add(graph, differs, torch.ops.aten._assert_scalar.default, (differs, text), None)
    program.graph_module.recompile()


def _add(graph, after, target, args, value):
    """nodes.describe_node relies on it: an added node needs these three entries and no others."""
    with graph.inserting_after(after):
        node = graph.call_function(target, args)
    node.meta |= {"val": value, "stack_trace": "", "nn_module_stack": {"L__self__": ("", "torch.nn.Module")}}
    return node


def test_views_share_storage_in_the_metadata():
    """equivalence.py relies on it: two fake values with equal StorageWeakRefs alias, all others do not."""
    model = module(lambda x: (x[1:].t(), x + 1))
    program, _, _ = trace(model, (torch.ones(4, 3),), ROWS)
    values = {str(node.target): node.meta.get("val") for node in program.graph.nodes}
    of = {name: StorageWeakRef(v.untyped_storage()) for name, v in values.items() if isinstance(v, torch.Tensor)}
    assert of["x"] == of["aten.slice.Tensor"]
    assert hash(of["x"]) == hash(of["aten.slice.Tensor"])
    assert of["x"] != of["aten.add.Tensor"]


def test_schemas_tell_views_from_copies():
    """schemas.is_view_operator relies on it: a view's schema marks its operand and its result as aliases."""

    def aliases(overload):
        schema = overload._schema
        return any(a.alias_info is not None for a in schema.arguments), all(
            r.alias_info is not None for r in schema.returns
        )

    assert aliases(torch.ops.aten.slice.Tensor) == (True, True)
    assert aliases(torch.ops.aten.add.Tensor) == (False, False)
    assert torch.ops.aten.add_.Tensor._schema.is_mutable
    assert not torch.ops.aten.slice.Tensor._schema.is_mutable


def test_a_saved_program_keeps_the_assertion_and_its_text():
    """assertions.py relies on it: a sentence in the graph is serialized as it is."""
    program, _, _ = trace(module(lambda x: x + 1), (torch.ones(4),), ROWS)
    _assert_rows(program, 5, "rows may not be five")
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    with pytest.raises(RuntimeError, match="rows may not be five"):
        torch.export.load(buffer).module()(torch.ones(5))


def test_a_saved_program_keeps_what_its_graph_carries_along():
    """program.py relies on it: the report is a text among the custom metadata of the graph module."""
    program, _, _ = trace(module(lambda x: x + 1), (torch.ones(4),), ROWS)
    program.graph_module.meta["custom"] = {"note": "kept"}
    for form in (program, program.run_decompositions(), copy.deepcopy(program)):
        buffer = io.BytesIO()
        torch.export.save(form, buffer)
        buffer.seek(0)
        assert torch.export.load(buffer).graph_module.meta["custom"] == {"note": "kept"}


@pytest.mark.thorough
def test_torch_warns_where_numpy_is_missing():
    """The dependency on numpy in pyproject.toml relies on it: nothing here imports it."""
    program = "import sys; sys.modules['numpy'] = None; import torch._subclasses"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Failed to initialize NumPy" in done.stderr


def test_the_cpu_draws_the_same_after_either_way_to_seed_it():
    """replay.py relies on it: where there is no accelerator, torch.manual_seed is the default generator's."""
    drawn = []
    for seed in (torch.manual_seed, torch.default_generator.manual_seed):
        seed(5)
        drawn.append(torch.rand(4))
    assert torch.equal(*drawn)
