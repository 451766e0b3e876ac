"""Writes the declared domain, and answers about data, into a traced program: assertions that every consumer executes.

`unflatten` and AOTInductor drop guards outside the graph. Both execute an `_assert_scalar` inside the graph, and so
does the module, after save and load and after `run_decompositions()`. Each assertion carries a message in the user's
names. closing_audit.py verifies that the assertions are complete.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import name_of
from shapeproof.contract.sizes import further_sizes, readings
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.graph import nodes
from shapeproof.export.graph.emit import Computation, NoGraphForm, has_graph_form
from shapeproof.export.ops.table import SIZE
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Translator
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.simplify import computed_whole
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied

SENTENCE = "input outside the declared domain: {}"
UNKNOWN = "it is not known whether the program is right for these data: {} does not hold"
MOST = 64
"""A formula with more clauses stays whole."""


def assert_domain(program: torch.export.ExportedProgram, inputs: Inputs, formulas: Iterable[Formula]) -> None:
    """Add an assertion for each formula, and for each input size that is a function of others.

    A formula without graph form is left out; the closing audit reports it.
    """
    writer = _Writer(program, inputs)
    writer.kinds()
    asserted = [*writer.relations(), *((formula, "") for formula in formulas)]
    known = Facts(formula for formula, _ in asserted if formula.total)
    for formula, text in asserted:
        computed = computed_whole(formula, known)
        if computed is not None:
            with contextlib.suppress(NoGraphForm):
                writer.check(computed, text or format_formula(formula, rename=inputs.user_names))
    writer.finish()


def without_kinds(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Remove the assertions on the dtypes and ranks of inputs from a module whose guards check them."""
    for node in module.graph.find_nodes(op="call_function", target=symbols.KIND_ASSERTION):
        seen = node.args[0]
        given = seen.args[0] if seen.target is torch.ops.aten.permute.default else seen
        if given.op == "placeholder":
            module.graph.erase_node(node)
            if seen is not given and not seen.users:
                module.graph.erase_node(seen)
    module.recompile()
    return module


def word_checks(program: torch.export.ExportedProgram, trial: Trial) -> None:
    """Give each assertion that torch words itself the message of the user's check that it stands for, also in bodies.

    Torch splits some checks into several assertions, such as bounds of one symbol. An assertion that a check implies
    gets that check's message.
    """
    sentences = {check.formula: check.message for check in trial.learned.checks if check.message}
    _word(program, lambda formula: sentences.get(formula) or _implying(formula, trial, sentences))


_INTEGERS = (int, torch.SymInt)


def part_equalities(program: torch.export.ExportedProgram) -> None:
    """Write each asserted equality of integers as two inequalities, as `_as_inequalities` says why; also in bodies."""
    for node in nodes.calls_in(program.graph_module, symbols.ASSERTION):
        asked, message = node.args
        if not isinstance(asked, torch.fx.Node) or not isinstance(nodes.metadata(asked), torch.SymBool):
            continue
        if asked.target is operator.eq and all(type(nodes.metadata(each)) in _INTEGERS for each in asked.args):
            for compare in (operator.le, operator.ge):
                nodes.insert_call(node, symbols.ASSERTION, (nodes.call_beside(node, compare, *asked.args), message))
            node.graph.erase_node(node)
            if not asked.users:
                asked.graph.erase_node(asked)


def word_as(program: torch.export.ExportedProgram, form: torch.export.ExportedProgram) -> None:
    """Give each assertion that torch words itself in a form of a program the program's message for the same formula."""
    _word(form, {formula: message for _, formula, message in asserted(program)}.get)


def _word(program: torch.export.ExportedProgram, sentence: Callable[[Formula], str | None]) -> None:
    for node, formula, own in asserted(program):
        if own.startswith(symbols.PROMISED):
            node.args = (node.args[0], sentence(formula) or own)


def asserted(program: torch.export.ExportedProgram) -> Iterator[tuple[torch.fx.Node, Formula, str]]:
    """Yield the assertions in a program and its bodies with their formulas and messages."""
    translator = translator_of(program)
    for node in nodes.calls_in(program.graph_module, symbols.ASSERTION):
        condition = nodes.metadata(node.args[0])
        if isinstance(condition, torch.SymBool):
            yield node, translator.formula(condition.node.expr), str(node.args[1])


def _implying(formula: Formula, trial: Trial, sentences: Mapping[Formula, str]) -> str | None:
    for check, message in sentences.items():
        facts = trial.known.assuming(check)
        if check.symbols & formula.symbols and implied(formula, facts):
            return message
    return None


class _Writer:
    """Writes size computations and assertions behind the inputs of a graph."""

    def __init__(self, program: torch.export.ExportedProgram, inputs: Inputs) -> None:
        self._graph = program.graph_module.graph
        self._inputs = inputs
        given = nodes.input_nodes(self._graph, len(inputs.leaves))
        self._nodes = {leaf.source: node for leaf, node in zip(inputs.leaves, given, strict=True)}
        self._before = next(node for node in self._graph.nodes if node.op != "placeholder")
        self._sizes: dict[tuple[str, int], torch.fx.Node] = {}
        leaves = inputs.leaves
        self._symbols = {
            name: place.value(self._size(leaves[place.leaf].source, place.index), self._call)
            for name, place in readings([leaf.terms for leaf in leaves]).items()
        }
        self._computation = Computation(self._symbols, self._call)

    def kinds(self) -> None:
        """Assert the rank, dtype, device and layout of each tensor.

        The assertion is on `permute(x, (0, 1, ...))`, which raises for another rank. The assertion uses the permuted
        tensor, so the permute node survives when torch traces the graph again.
        """
        for node in self._nodes.values():
            noted = node.meta["val"]
            if isinstance(noted, torch.Tensor):
                strided = noted.layout == torch.strided
                seen = self._call(torch.ops.aten.permute.default, node, list(range(noted.dim()))) if strided else node
                kind = {"device": noted.device, "layout": noted.layout}
                nodes.insert_call(self._before, symbols.KIND_ASSERTION, (seen, None, None, noted.dtype), kind)

    def relations(self) -> list[tuple[Formula, str]]:
        """Return `size == term`, and its text, for each input size that is a function of the symbols."""
        found, names = [], self._inputs.user_names
        for name, (place, formula) in further_sizes([leaf.terms for leaf in self._inputs.leaves]).items():
            leaf = self._inputs.leaves[place.leaf]
            self._symbols[name] = self._size(leaf.source, place.index)
            found.append((formula, format_formula(formula, rename=names | {name: leaf.size_name(place.index)})))
        return found

    def check(self, formula: Formula, text: str) -> None:
        """Assert one formula, with its text in the message."""
        for part in itertools.chain.from_iterable(map(_as_inequalities, clauses(formula))):
            condition = self._computation.formula(part)
            if isinstance(condition, torch.fx.Node):
                self._call(symbols.ASSERTION, condition, SENTENCE.format(text))

    def finish(self) -> None:
        """Erase unused nodes, and lint the graph; its code is generated when the program is built."""
        for node in self._sizes.values():
            if not node.users:
                self._graph.erase_node(node)
        self._graph.lint()

    def _size(self, source: str, index: int) -> torch.fx.Node:
        placeholder = self._nodes[source]
        if not isinstance(placeholder.meta["val"], torch.Tensor):
            return placeholder
        key = (source, index)
        if key not in self._sizes:
            self._sizes[key] = self._call(SIZE, placeholder, index)
        return self._sizes[key]

    def _call(self, target: Callable[..., Any], *args: Any) -> Any:
        return nodes.call_before(self._before, target, *args)


def _as_inequalities(formula: Formula) -> list[Formula]:
    """Split an equality into two inequalities.

    Torch solves an asserted equality for a symbol when it loads a program, and drops the check.
    """
    match formula:
        case f.Compare("==", term):
            return [f.le(term, 0), f.ge(term, 0)]
        case _:
            return [formula]


# ---------------------------------------------------------------------- clauses


def clauses(formula: Formula) -> Sequence[Formula]:
    """Return the clauses of a total formula; any other formula, and one with too many clauses, stays whole.

    Clauses are disjunctions of comparisons, which hold together where the formula holds. Torch's loader brings each
    assertion into this form. Where a clause of a larger formula always holds, the loader fails; here such clauses are
    dropped.

    >>> from shapeproof.constraints.terms import symbol
    >>> n, m = symbol("n"), symbol("m")
    >>> clauses(f.disjunction(f.eq(n, 0), f.conjunction(f.ne(n, 0), f.ge(m, 2))))
    (m >= 2 or n == 0,)
    """
    found = _clauses(formula) if formula.total else None
    return (formula,) if found is None else found


def _clauses(formula: Formula) -> tuple[Formula, ...] | None:
    match formula:
        case f.And(args) | f.Or(args):
            parts = [_clauses(each) for each in args]
            if any(part is None for part in parts):
                return None
            every = [part for part in parts if part is not None]
            if isinstance(formula, f.And):
                return _shortest(itertools.chain.from_iterable(every))
            return _joined(every)
        case _:
            return (formula,)


def _joined(parts: Sequence[Sequence[Formula]]) -> tuple[Formula, ...] | None:
    """Return the clauses of a disjunction: one of each part, in every combination."""
    found: tuple[Formula, ...] = (f.FALSE,)
    for part in parts:
        found = _shortest(f.disjunction(*pair) for pair in itertools.product(found, part))
        if len(found) > MOST:
            return None
    return found


def _shortest(every: Iterable[Formula]) -> tuple[Formula, ...]:
    """Return the clauses that no other clause implies by having fewer operands."""
    distinct = [each for each in dict.fromkeys(every) if each is not f.TRUE]
    operands = {each: frozenset(each.args if isinstance(each, f.Or) else (each,)) for each in distinct}
    return tuple(each for each in distinct if not any(operands[other] < operands[each] for other in distinct))


# ---------------------------------------------------------------------- answers about data


def assert_answers(program: torch.export.ExportedProgram, answers: Sequence[Formula]) -> list[Formula]:
    """Assert answers about data: the program refuses data that answer a question differently from the trace.

    Law: an assertion directly follows the last number that it mentions.

    Returns:
        The formulas that have no graph form, or mention a number that the outermost graph does not hold.
    """
    if not answers:
        return []
    graph, numbers = program.graph_module.graph, _numbers(program)
    place = {node: index for index, node in enumerate(graph.nodes)}
    left = []
    for answer in dict.fromkeys(answers):
        if not answer.symbols <= numbers.keys() or not has_graph_form(answer):
            left.append(answer)
            continue
        last = max((numbers[name][0] for name in answer.symbols), key=place.__getitem__)
        _write(answer, {name: numbers[name] for name in answer.symbols}, _after(last))
    graph.lint()
    program.graph_module.recompile()
    return left


_Number = tuple[torch.fx.Node, int | None]
"""A node that is a number; or a tensor node and the index of a size."""


def _numbers(program: torch.export.ExportedProgram) -> dict[str, _Number]:
    """Map each symbol to the first node that it can be read from."""
    translator = translator_of(program)
    found: dict[str, _Number] = {}
    for node in program.graph_module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            _note(found, value, (node, None), translator)
        elif isinstance(value, torch.Tensor):
            for index, size in enumerate(value.shape):
                _note(found, size, (node, index), translator)
    return found


def _note(found: dict[str, _Number], size: int | torch.SymInt, where: _Number, translator: Translator) -> None:
    name = name_of(translator.size(size))
    if name is not None:
        found.setdefault(name, where)


def _after(node: torch.fx.Node) -> torch.fx.Node:
    """Return the next node that is not an input of the graph."""
    following = node.next
    while following.op == "placeholder":
        following = following.next
    return following


def _write(answer: Formula, numbers: dict[str, _Number], before: torch.fx.Node) -> None:
    call = functools.partial(nodes.call_before, before)
    read = {name: node if index is None else call(SIZE, node, index) for name, (node, index) in numbers.items()}
    condition = Computation(read, call).formula(answer)
    nodes.insert_call(before, symbols.ASSERTION, (condition, UNKNOWN.format(format_formula(answer))))
