"""What two ledgers say otherwise, in words: verdicts first, then the work that they cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.ledger.lines import REGION, Line
from shapeproof.solver import prove

Ledger = Mapping[str, Line]

_NAMED = 8
"""The most models that a sentence names."""


def verdicts_in_words(old: Ledger, new: Ledger) -> list[str]:
    r"""Say what became of the verdicts: a sentence for each kind of change, and for each model whose domain changed.

    >>> before = {name: Line(name, "proved", ("n <= 8",)) for name in ("a", "b", "c")}
    >>> after = {"a": Line("a", "undecided"), "b": Line("b", "proved", ("n <= 9",)), "d": Line("d", "proved")}
    >>> print(*verdicts_in_words(before, after), sep="\n")
    1 proved -> undecided: a
    1 no longer there: c
    1 new: d
    domain of b: no longer n <= 8; now n <= 9
    """
    both = [(old[name], new[name]) for name in sorted(old.keys() & new.keys()) if old[name] != new[name]]
    kinds: dict[str, list[str]] = defaultdict(list)
    for before, after in both:
        if before.status != after.status:
            kinds[f"{before.status} -> {after.status}"].append(before.name)
    kinds["no longer there"] = sorted(old.keys() - new.keys())
    kinds["new"] = sorted(new.keys() - old.keys())
    sentences = [f"{len(names)} {kind}: {_some(names)}" for kind, names in kinds.items() if names]
    same = ((before, after) for before, after in both if before.status == after.status)
    return [*sentences, *(sentence for pair in same for sentence in _details(*pair))]


def plain_in_words(fast: Ledger, plain: Ledger) -> list[str]:
    r"""Say what the plain way decides otherwise: another status, or, if a model is not refuted, another domain.

    The plain way cuts a domain along other questions, so sizes that fail may be told apart by other diagnostics, and
    the same domain be described in other words.

    >>> fast = {"a": Line("a", "refuted", ids=("bound",)), "b": Line("b", "proved", ("n <= 2*k + 1", "n % 2 == 0"))}
    >>> same = {"a": Line("a", "refuted", ids=("relation",)), "b": Line("b", "proved", ("n <= 2*k", "n % 2 == 0"))}
    >>> plain_in_words(fast, same)
    []
    >>> plain_in_words(fast, same | {"b": Line("b", "proved", ("n <= 2*k",))})
    ['domain of b: no longer n <= 2*k + 1, n % 2 == 0; now n <= 2*k']
    """
    other = [name for name in plain if not _decide_the_same(fast[name], plain[name])]
    return verdicts_in_words(*({name: ledger[name] for name in other} for ledger in (fast, plain)))


def _decide_the_same(one: Line, other: Line) -> bool:
    if one.status != other.status or one.status == "refuted":
        return one.status == other.status
    mine, others = ([each for each in line.domain if not each.startswith(REGION)] for line in (one, other))
    return mine == others or (_imply(mine, others) and _imply(others, mine))


def _imply(given: Sequence[str], claims: Sequence[str]) -> bool:
    return all(prove(each, given=given).status == "proved" for each in claims)


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _details(old: Line, new: Line) -> Iterator[str]:
    """Say how two lines of one status differ."""
    gone, come = ([each for each in a.domain if each not in b.domain] for a, b in ((old, new), (new, old)))
    parts = [*([f"no longer {', '.join(gone)}"] if gone else []), *([f"now {', '.join(come)}"] if come else [])]
    if parts:
        yield f"domain of {old.name}: {'; '.join(parts)}"
    if old.ids != new.ids:
        yield f"diagnostics of {old.name}: {', '.join(old.ids) or 'none'} -> {', '.join(new.ids) or 'none'}"
    if old.witnesses != new.witnesses:
        yield f"witnesses of {old.name}: {_inputs(old)} -> {_inputs(new)}"


def _inputs(line: Line) -> str:
    return " | ".join(", ".join(f"{name} = {size}" for name, size in each.items()) for each in line.witnesses) or "none"


def costs_in_words(old: Ledger, new: Ledger) -> list[str]:
    r"""Say what became of the work: the sum of each kind, and where it changed most.

    >>> before = {"a": Line("a", "proved", spent={"traces": 4}), "b": Line("b", "proved", spent={"traces": 4})}
    >>> print(*costs_in_words(before, before | {"a": Line("a", "proved", spent={"traces": 6})}), sep="\n")
    traces: 8 -> 10 (+25 %); most at a: 4 -> 6
    """
    names = sorted(old.keys() & new.keys())
    sums = [sum((Counter(ledger[name].spent) for name in names), Counter()) for ledger in (old, new)]
    said = []
    for kind in dict.fromkeys([*sums[0], *sums[1]]):
        before, after = (each[kind] for each in sums)
        if before == after:
            continue
        changes = {name: new[name].spent.get(kind, 0) - old[name].spent.get(kind, 0) for name in names}
        most = max(names, key=lambda name: abs(changes[name]))
        share = f" ({(after - before) / before:+.0%})".replace("%", " %") if before else ""
        here = f"{old[most].spent.get(kind, 0):,} -> {new[most].spent.get(kind, 0):,}"
        said.append(f"{kind.replace('_', ' ')}: {before:,} -> {after:,}{share}; most at {most}: {here}")
    return said
