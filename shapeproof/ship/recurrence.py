"""LSTM, GRU and RNN over a dynamic length as a loop, for consumers that have no such operator.

torch's decomposition writes one piece for each step of the example. torch's `scan` is one piece for all steps, and
converters have a loop for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from shapeproof.export.build.program import ReportedProgram
from shapeproof.export.ops import schemas
from shapeproof.export.ops.shapes.recurrent import unrolled

_ATEN = torch.ops.aten
_LSTM = _ATEN.lstm.input
State = tuple[Tensor, ...]
Step = Callable[[State, Tensor, Tensor], State]
"""From the state, the gates of the input and those of the output before to the next state."""


def _elman(activation: Callable[[Tensor], Tensor]) -> Step:
    return lambda _, given, fed: (activation(given + fed),)


def _gru(state: State, given: Tensor, fed: Tensor) -> State:
    (reset, update, new), (reset_fed, update_fed, new_fed) = given.chunk(3, -1), fed.chunk(3, -1)
    kept = (update + update_fed).sigmoid()
    made = (new + (reset + reset_fed).sigmoid() * new_fed).tanh()
    return (made + kept * (state[0] - made),)


def _lstm(state: State, given: Tensor, fed: Tensor) -> State:
    taken, kept, new, shown = (given + fed).chunk(4, -1)
    cell = kept.sigmoid() * state[1] + taken.sigmoid() * new.tanh()
    return shown.sigmoid() * cell.tanh(), cell


_STEPS: dict[Any, Step] = {
    _ATEN.rnn_tanh.input: _elman(torch.tanh),
    _ATEN.rnn_relu.input: _elman(torch.relu),
    _ATEN.gru.input: _gru,
    _LSTM: _lstm,
}


def in_loops(program: ReportedProgram, *, except_lstm: bool = False) -> ReportedProgram:
    """Return a program with its recurrences over dynamic lengths as loops.

    `except_lstm`: the consumer has an operator for an LSTM, but for none with a projection.
    """
    found = unrolled(program.graph)
    if except_lstm and not any(map(_is_projected, program.graph.find_nodes(op="call_function", target=_LSTM))):
        found -= {_LSTM}
    table: dict[Any, Callable[..., Any]] = {operator: functools.partial(_looped, operator) for operator in found}
    return program.run_decompositions(table) if table else program


def _is_projected(lstm: torch.fx.Node) -> bool:
    hidden: Any = lstm.args[1]
    output, cell = (each.meta["val"].shape[-1] for each in hidden)
    return bool(output != cell)


class _Weights(NamedTuple):
    """The weights of one layer in one direction."""

    of_input: Tensor
    of_output: Tensor
    input_bias: Tensor | None
    output_bias: Tensor | None
    projection: Tensor | None

    @classmethod
    def read(cls, params: Sequence[Tensor], *, has_biases: bool) -> _Weights:
        """Read them in the order in which torch lists them."""
        biases: Sequence[Tensor | None] = params[2:4] if has_biases else (None, None)
        rest = params[4 if has_biases else 2 :]
        return cls(params[0], params[1], biases[0], biases[1], rest[0] if rest else None)


def _looped(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Return an operator's results, a loop for each layer and direction."""
    named = schemas.by_name(operator, args, kwargs)
    if named["train"] and named["dropout"]:
        return NotImplemented  # it draws numbers between its layers
    x = named["input"].transpose(0, 1) if named["batch_first"] else named["input"]
    starts = named["hx"] if isinstance(named["hx"], list | tuple) else [named["hx"]]
    directions, params = 2 if named["bidirectional"] else 1, named["params"]
    count = len(params) // (named["num_layers"] * directions)
    ends = []
    for layer in range(named["num_layers"]):
        outs = []
        for index in range(layer * directions, (layer + 1) * directions):
            weights = _Weights.read(params[index * count : (index + 1) * count], has_biases=named["has_biases"])
            start = tuple(each[index] for each in starts)
            out, end = _direction(_STEPS[operator], x, start, weights, backward=bool(index % directions))
            outs.append(out)
            ends.append(end)
        x = torch.cat(outs, -1)
    return (x.transpose(0, 1) if named["batch_first"] else x, *map(torch.stack, zip(*ends, strict=True)))


def _direction(step: Step, x: Tensor, start: State, weights: _Weights, *, backward: bool) -> tuple[Tensor, State]:
    """Return the outputs of all steps, and the last state, of one layer in one direction."""
    given = linear(x, weights.of_input, weights.input_bias)
    held = [each for each in (weights.of_output, weights.output_bias, weights.projection) if each is not None]

    def combine(*operands: Tensor) -> tuple[Tensor, ...]:
        state, (now, *rest) = operands[: len(start)], operands[len(start) :]
        bias = rest[1] if weights.output_bias is not None else None
        made = step(state, now, linear(state[0], rest[0], bias))
        made = made if weights.projection is None else (linear(made[0], rest[-1]), *made[1:])
        return (*made, made[0].clone())

    xs = [given.flip(0) if backward else given]
    *end, out = torch.ops.higher_order.scan(combine, list(start), xs, tuple(held))
    return out.flip(0) if backward else out, tuple(end)
