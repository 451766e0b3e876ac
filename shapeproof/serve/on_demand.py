"""Programs on demand: each call goes to the program whose proved domain contains it; a miss exports the model.

call    read it, find its program by one generated function, run                   calls.py, programs.py
miss    one thread exports while nothing runs; the others wait, and look again     attempts.py, gate.py
keep    a program whose domain is proved within another's is dropped               programs.py, domains.py

No program is ever run outside of its proved domain: what cannot be read, or is not proved, falls to eager.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from shapeproof.constraints.errors import ShapeproofError, UsageError, nearest
from shapeproof.contract.outside import OutsideDomain
from shapeproof.export import ConstraintViolation, VerifiedProgram
from shapeproof.export.forms.seen.from_seen import parameters
from shapeproof.export.shim import guarding
from shapeproof.export.shim.process.default_device import intercepting
from shapeproof.export.shim.process.one_thread import exporting
from shapeproof.export.shim.process.transforms import transforming
from shapeproof.export.shim.trees import sized_as
from shapeproof.files import write_whole
from shapeproof.seen import Seen
from shapeproof.seen.calls import Call
from shapeproof.serve.attempts import Exporter, Learned, no_random_numbers
from shapeproof.serve.calling.backends import Backend, Run, resolved
from shapeproof.serve.calling.calls import Key, Request, Unreadable, read
from shapeproof.serve.calling.gate import gate
from shapeproof.serve.calling.state import ModelState, share_state
from shapeproof.serve.domains import flat_domain
from shapeproof.serve.misses import Miss, explained
from shapeproof.serve.page import served_html, served_page
from shapeproof.serve.programs import Program, Router, regions_of

MOST_MISSES = 1000
"""The most misses that are kept: the first, each of another call."""
MOST_FAILED = 4
"""After this many calls of one form that no attempt serves, nothing more is traced for the form."""
MOST_FORMS = 256
"""The most forms of calls that are remembered; one more, and all are forgotten and learned again."""
_OTHERWISE = ("trace", "eager", "raise")


def compile(  # noqa: A001, PLR0913 - the word that torch has for it
    model: torch.nn.Module,
    dynamic_shapes: Any = None,
    constraints: Sequence[str] = (),
    *,
    seen: Seen | None = None,
    at_most: int = 8,
    otherwise: str = "trace",
    backend: str | Callable[[VerifiedProgram], Run] | None = None,
) -> Served:
    """Serve a model by proved programs, which are made when they are needed.

    A call that no program serves exports the model again: sizes that varied are dynamic, all seen inputs are served.

    Args:
        model: the model, which is not changed; programs use its own parameters and buffers.
        dynamic_shapes: what is declared, as for `export`; the first call must lie in it. None: what is seen to vary.
        constraints: relations, as for `export`.
        seen: inputs recorded earlier; programs for them need not be learned again.
        at_most: how many programs are kept; the model itself runs what they do not serve.
        otherwise: for a call that no program serves, "trace" another, run the model ("eager"), "raise" OutsideDomain.
        backend: "graph" (the default), "torch.compile", "aot_inductor", "onnxruntime", or a function of a program.

    Returns:
        A callable with the signature and the results of the model.

    Raises:
        UsageError: an argument is invalid, or a library that the backend needs is missing.

    >>> run = compile(torch.nn.ReLU())
    >>> [run(torch.ones(n)).shape[0] for n in (3, 4, 5, 0)]
    [3, 4, 5, 0]
    >>> print(*run.programs)
    program 2: input.shape[0] >= 0
    >>> print(*run.misses)
    input.shape[0] = 4; program 1 serves input.shape[0] == 3, the only one seen before
    """
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"expected a torch.nn.Module, got {type(model).__name__}")
    if otherwise not in _OTHERWISE:
        raise UsageError(f"unknown otherwise={otherwise!r}{nearest(str(otherwise), _OTHERWISE)}")
    if type(at_most) is not int or at_most < 1:
        raise UsageError(f"expected at_most to be a number from 1, got {at_most!r}")
    exporter = Exporter(model, dynamic_shapes, constraints)
    return Served(model, exporter, seen or Seen(), at_most, otherwise, resolved(backend))


class Served:
    """What `compile` returns.

    Attributes:
        model: the model.
        traced: how many times it was exported.
        missed: how many calls no program served.
        calls: how many there were.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what compile was given
        self, model: torch.nn.Module, exporter: Exporter, seen: Seen, at_most: int, otherwise: str, backend: Backend
    ) -> None:
        self.model = model
        self.traced = 0
        self.missed = 0
        self.calls = 0
        self._counted = itertools.count(1)
        self._exporter = exporter
        self._before = seen.named(parameters(model))
        self._at_most, self._otherwise, self._backend = at_most, otherwise, backend
        self._numbers = itertools.count(1)
        self._state = ModelState(model)
        self._router = Router(())
        self._learned: dict[Hashable, Learned] = {}
        self._misses: dict[Hashable, Miss] = {}
        self._lock = threading.RLock()

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs that are kept, in the order in which they were made."""
        return self._router.programs

    @property
    def misses(self) -> tuple[Miss, ...]:
        """The calls that no program served when they came, each once, in order; the first 1,000."""
        return tuple(self._misses.values())

    def save(self, path: str | Path) -> None:
        """Write the programs, with the model's tensors as they are now, as one archive, which `load_regions` reads.

        Args:
            path: the file.

        Raises:
            UsageError: there is no program, or there are some for inputs of other dtypes, ranks or modes.
        """
        with self._lock:
            self._renew()
            regions_of(self.programs).save(path)

    def write_report(self, path: str | Path) -> None:
        """Write a page: programs, their regions, sizes seen beside those served, misses and why, what to declare.

        Args:
            path: the HTML file.

        Raises:
            OSError: it cannot be written; what was there stays.

        >>> import tempfile
        >>> run = compile(torch.nn.ReLU())
        >>> _ = run(torch.ones(3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run.write_report(f"{folder}/served.html")
        ...     "1 calls" in Path(f"{folder}/served.html").read_text()
        True
        """
        write_whole(Path(path), served_page(self, self._profiles()))

    def _repr_html_(self) -> str:
        return served_html(self, self._profiles())

    def _profiles(self) -> dict[Hashable, Seen]:
        """Return the profile of the calls of each form and modes."""
        return {key: learned.seen for key, learned in self._learned.copy().items()}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program of these inputs.

        Raises:
            OutsideDomain: there is none, and otherwise="raise".
            ConstraintViolation: the model does not support what was declared.
        """
        if guarding.is_traced() or exporting() or transforming():
            return self.model(*args, **kwargs)
        self.calls = next(self._counted)
        gate.enter()
        try:
            program = self._find(args, kwargs)
            if program is not None:
                return program.run(*args, **kwargs)
        finally:
            gate.leave()
        return self._without(args, kwargs)

    def _find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program | None:
        """Return the program that serves a call, if any."""
        if not self._state.is_current():
            return None
        try:
            form, sizes, inputs = read(args, kwargs)
        except Unreadable:
            return None
        return self._router.find(Key(form, self._state.modes()), sizes, inputs)

    def _without(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call that no program served a moment ago."""
        program = None
        if not gate.is_inside():  # within another run nothing can be traced
            with self._lock:
                self._renew()
                program = self._find(args, kwargs) or self._made_for(args, kwargs)
        gate.enter()
        try:
            return program.run(*args, **kwargs) if program else self.model(*args, **kwargs)
        finally:
            gate.leave()

    def _renew(self) -> None:
        """Have the programs use the tensors that the model has now; drop the programs if those are of another kind."""
        if self._state.is_current():
            return
        with gate.closed():
            alike = self._state.read() and not self._backend.keeps_weights
            kept = self.programs if alike else ()
            for each in kept:
                share_state(each.module, self.model, each.exported.constants)
            self._router = Router(kept)

    def _made_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program | None:
        """Make a program for a call, if one should be made and can be; note the miss."""
        self.missed += 1
        try:
            form, sizes, inputs = read(args, kwargs)
            call = self._exporter.call(args, kwargs)
        except (Unreadable, ShapeproofError, TypeError) as error:
            self._refused(Miss({}, (), "eager", f"no program is made of it: {error}"), str(error))
            return None
        request = Request(args, kwargs, Key(form, self._state.modes()), sizes, inputs)
        learned = self._about(request.key, call)
        learned.seen.add_call(call)
        said = self._reluctance(request, learned)
        tried = self._otherwise == "trace"
        miss = explained(self.model, request, call, learned.seen, self.programs, said if tried else "")
        if said:
            self._refused(miss, request.identity)
            return None
        try:
            with gate.closed():
                found, said = self._exported(request, learned)
        except (UsageError, ConstraintViolation):
            self._note(replace(miss, outcome="raised"), request.identity)
            raise
        if found is None:
            self._refused(replace(miss, said=said), request.identity)
        elif miss.reasons:
            self._note(miss, request.identity)
        return found

    def _about(self, key: Hashable, call: Call) -> Learned:
        """Return the knowledge about calls of a form and modes."""
        if key not in self._learned:
            if len(self._learned) >= MOST_FORMS:
                self._learned.clear()
            joint = self._before.joints.get(call.kind)
            self._learned[key] = Learned(Seen({} if joint is None else {call.kind: joint}))
        return self._learned[key]

    def _reluctance(self, request: Request, learned: Learned) -> str:
        """Return the reason not to trace for a call; empty if the call is traced."""
        if self.programs and self._otherwise != "trace":
            return f"nothing is traced under otherwise={self._otherwise!r}"
        if intercepting():
            return "nothing is traced under such a mode"
        if self._state.unreadable:
            return f"the state of `{self._state.unreadable}` cannot be read"
        if self._backend.keeps_weights and torch.is_grad_enabled():
            return "its backend gives no gradients: call it under torch.no_grad()"
        given_up = max(len(learned.failed), learned.restless) >= MOST_FAILED
        if given_up or tuple(request.sizes) in learned.failed:
            return learned.said
        alike = (each for each in self.programs if each.key == request.key)
        if len(self.programs) >= self._at_most and not any(each.is_static for each in alike):
            return f"at_most={self._at_most} programs are kept"
        return ""

    def _refused(self, miss: Miss, identity: Hashable) -> None:
        """Note a miss that the model itself runs.

        Raises:
            OutsideDomain: nothing but programs may run.
        """
        raising = self._otherwise == "raise"
        self._note(replace(miss, outcome="raised" if raising else "eager"), identity)
        if raising:
            nearest_one = miss.nearest
            raise OutsideDomain(str(miss), miss.sizes, nearest_one.served if nearest_one else "the domain of a program")

    def _note(self, miss: Miss, identity: Hashable) -> None:
        if len(self._misses) < MOST_MISSES:
            self._misses.setdefault(identity, replace(miss, call=self.calls))

    def _exported(self, request: Request, learned: Learned) -> tuple[Program | None, str]:
        """Export and keep a program for a call; if there is none, return the reason."""
        read = self._rehearse(request)
        if read:
            learned.restless += 1
            learned.said = f"the model changes `{read}` when it runs, and may read it"
            return None, learned.said
        self.traced += 1
        exported, declared, said = self._exporter.export(
            request.args, request.kwargs, learned, static=self._state.is_restless
        )
        said = said or _unfit(exported)
        made = [] if said else [self._program(each, request, declared=declared) for each in exported]
        new = [each for each in made if each is not None]
        found = next((each for each in new if each.serves(request.sizes, request.inputs)), None)
        if found is not None:
            kept = [each for each in self.programs if not any(other.covers(each) for other in new)]
            if len(kept) + len(new) <= self._at_most:
                self._router = Router((*kept, *new))
                return found, ""
            said = f"at_most={self._at_most} programs are kept, and it needs another"
        learned.failed.add(tuple(request.sizes))
        learned.said = said or "the domain of its program cannot be told by sizes"
        return None, learned.said

    def _rehearse(self, request: Request) -> str:
        """Return the path of state that the model changes when it runs and may read; empty if there is none."""
        read = ""
        with contextlib.suppress(UsageError), no_random_numbers():  # an export says what is wrong with such numbers
            read = self._state.rehearse(request.args, request.kwargs)
        return read

    def _program(self, exported: VerifiedProgram, request: Request, *, declared: bool) -> Program | None:
        """Return a program that is ready to run; None if sizes alone do not decide its domain."""
        flat = flat_domain(exported)
        if flat is None:
            return None
        module = exported.module()
        share_state(module, self.model, exported.constants)
        run = _giving_sizes(self._backend.make(exported, module), sized_as(exported.call_spec.out_spec))
        return Program(next(self._numbers), exported, flat, request.key, module, run, declared)


def _unfit(exported: Sequence[VerifiedProgram]) -> str:
    """Return the reason not to run programs in place of the model in the current modes; empty if there is none."""
    lost = sorted(each for program in exported for each in program.contract.own_backward)
    return f"a program has not {lost[0]}" if lost and torch.is_grad_enabled() else ""


def _giving_sizes(run: Run, sized: Callable[[Any], Any] | None) -> Run:
    """Wrap the run of a program so that it returns torch.Size where the model does."""
    return run if sized is None else lambda *args, **kwargs: sized(run(*args, **kwargs))
