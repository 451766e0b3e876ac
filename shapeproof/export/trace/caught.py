"""Detect a model that catches an error which only its trace raises, by running eager at the trace's point.

An error that both raise is the model's own business: a name or a key that is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.shim.process.quiet import quiet
from shapeproof.export.shim.process.transforms import transforms_ended
from shapeproof.export.source.raised import only_in_the_first, raised_by_the_user
from shapeproof.export.trace.python.builtins import fresh_copy, kept_symbolic
from shapeproof.export.trace.trial import Trial


@contextlib.contextmanager
def nothing_swallowed(mod: torch.nn.Module, inputs: Inputs, trial: Trial) -> Iterator[None]:
    """Refuse a model that caught an error, while traced at a trial's point, which eager does not raise there.

    Raises:
        UsageError: the model caught such an error; an error that leaves the model is raised first.
    """
    with raised_by_the_user() as traced:
        yield
    if not traced:
        return
    args, kwargs = inputs.at(trial.point, filled=True)
    model = fresh_copy(mod)
    apart = (contextlib.suppress(Exception), quiet(), transforms_ended(), torch.random.fork_rng(), kept_symbolic(model))
    with raised_by_the_user() as eager, contextlib.ExitStack() as stack:
        for each in apart:
            stack.enter_context(each)
        model(*args, **kwargs)
    sentence = only_in_the_first(traced, eager)
    if sentence is not None:
        raise UsageError(sentence)
