"""What benchmarks.solver found, as tables for people. It measures nothing and judges nothing."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table

from benchmarks.scoring import Scored

Groups = Mapping[str, Sequence[Scored]]
Results = Mapping[str, Groups]

STEPS = ("canonical", "facts", "intervals", "evaluation", "z3", "exhaustion", "")
"""The steps of the ladder, and none."""


def percentile(values: Iterable[float], percent: int) -> float:
    """The smallest of the values that is not exceeded by so many percent of them.

    >>> percentile([3, 1, 2], 50), percentile(range(1, 101), 99)
    (2, 99)
    """
    ordered = sorted(values)
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]


def all_tables(results: Results, ours: str, guards: str, textbook: str) -> list[Table]:
    """The tables, in the order in which they are read."""
    mine = results[ours]
    parts = {guards: {guards}, "recordings": set(mine) - {guards, textbook}, textbook: {textbook}}
    peers = [_peers(results, title, names) for title, names in parts.items()]
    return [_recordings(mine, ours), _steps(mine, ours), *(table for table in peers if table.row_count)]


def _recordings(groups: Groups, ours: str) -> Table:
    """Each recording: how many questions, how they were answered, and the milliseconds that a question took."""
    table = Table("asked", title=f"{ours}: what was answered, and the processor's milliseconds from text to answer")
    for column in ("questions", "always", "never", "depends", "undecided", "total", "median", "p99", "most"):
        table.add_column(column, justify="right")
    everything = [each for group in groups.values() for each in group]
    for name, scored in (*groups.items(), ("all", everything)):
        counts = Counter(each.answer.answer for each in scored)
        times = [1_000 * each.seconds for each in scored]
        figures = (sum(times), statistics.median(times), percentile(times, 99), max(times))
        open_ = len(scored) - sum(counts[answer] for answer in ("always", "never", "depends"))
        cells = (len(scored), counts["always"], counts["never"], counts["depends"], open_)
        table.add_row(name, *map(str, cells), f"{figures[0]:.0f}", *(f"{figure:.2f}" for figure in figures[1:]))
    return table


def _steps(groups: Groups, ours: str) -> Table:
    """Which step of the ladder gave which answers."""
    counts = Counter((each.answer.step, each.answer.answer) for group in groups.values() for each in group)
    table = Table("step", title=f"{ours}: which step of the ladder answered")
    shown = ("always", "never", "depends", "unknown")
    for column in (*shown[:-1], "undecided"):
        table.add_column(column, justify="right")
    for step in STEPS:
        cells = [counts[step, answer] for answer in shown]
        if any(cells):
            table.add_row(step or "none", *map(str, cells))
    return table


def _peers(results: Results, title: str, names: set[str]) -> Table:
    """Everyone on the same questions."""
    table = Table("", title=f"{title}: who decides what")
    columns = ("questions", "proved", "wrong", "depends", "open", "not asked", "deciding", "in all")
    for column in columns:
        table.add_column(column, justify="right")
    for peer, groups in results.items():
        scored = [each for name in groups if name in names for each in groups[name]]
        if scored:
            table.add_row(peer, *_row(scored))
    return table


def _row(scored: Sequence[Scored]) -> Iterable[str]:
    counts = Counter(each.answer.answer for each in scored)
    late = counts["late"]
    cells = (
        len(scored),
        sum(each.proved for each in scored),
        sum(each.wrong is not None for each in scored),
        counts["depends"],
        counts["unknown"] + counts["unsupported"],
        late,
    )
    return (*map(str, cells), *(f"{seconds:.2f} s" + (" +" if late else "") for seconds in _times(scored)))


def findings(results: Results, ours: str, guards: str) -> Iterable[str]:
    """The comparison of times on the guards, in sentences."""
    if guards not in results[ours]:
        return
    mine = _times(results[ours][guards])
    for peer, groups in results.items():
        if peer != ours:
            theirs = _times(groups[guards])
            late = sum(each.answer.answer == "late" for each in groups[guards])
            each = (
                f"{name} {t / m:.0f} times" for name, t, m in zip(("deciding", "in all"), theirs, mine, strict=True)
            )
            yield f"{guards}: {peer} took {', '.join(each)} as long as {ours}" + (f"; {late} not asked" if late else "")


def _times(scored: Sequence[Scored]) -> tuple[float, float]:
    """Seconds deciding, and in all."""
    return sum(each.answer.deciding for each in scored), sum(each.seconds for each in scored)
