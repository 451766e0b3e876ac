"""What exports may cost, held against what was measured: each bar with its figure. It measures nothing.

A record is what benchmarks.export_ratio writes. A bar whose models were not measured is left out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

GROWTH = ("llama_32_layers", "swin_four_stages", "dims_1", "dims_16")
"""Models that are measured for how their cost grows, and are not among those of the median."""
APART = (*GROWTH, "vit", "swin", "windowed_attention")
"""The median and the worst are over other models than these: each of these has a bar, or is refuted by design."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure and the most that it may be.

    >>> Bar("worst ratio", 2.5, 2.0).is_met
    False
    """

    name: str
    figure: float
    most: float
    remark: str = ""

    @property
    def is_met(self) -> bool:
        """True if the figure is within the bar."""
        return self.figure <= self.most and not self.remark


def bars(record: Mapping[str, Any]) -> Iterator[Bar]:
    """Yield every bar that the record has figures for.

    >>> torch, ours = {"seconds": 2.0, "outcome": "exported"}, {"seconds": 1.0, "outcome": "proved"}
    >>> rows = [{"model": "m", "ratio": 0.5, "torch": torch, "shapeproof": ours}]
    >>> [(each.name, each.figure) for each in bars({"rows": rows})]
    [('median ratio', 0.5), ('worst ratio (m)', 0.5)]
    """
    rows = {row["model"]: row for row in record["rows"]}
    yield from _ordinary(rows)
    for name, most in (("llama", 0.9), ("llama_32_layers", 0.8), ("vit", 1.5), ("swin", 0.25)):
        if name in rows:
            yield Bar(f"ratio of {name}", rows[name]["ratio"], most, _unsettled(rows[name]))
    yield from _growth(rows)
    if "peak_bytes" in record:
        kept = record["peak_bytes"]
        yield Bar("peak memory of an export", kept["shapeproof"] / kept["torch"], 1.15)
    if "help" in record:
        loaded = "torch is imported" if record["help"]["imports_torch"] else ""
        yield Bar("seconds of shapeproof --help", record["help"]["seconds"], 0.3, loaded)


def _ordinary(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[Bar]:
    """Hold the models whose sizes are declared, those that torch.export refuses at its first error among them."""
    ratios = {name: row["ratio"] for name, row in rows.items() if name not in APART and not name.endswith(".auto")}
    if ratios:
        worst = max(ratios, key=lambda name: ratios[name])
        yield Bar("median ratio", statistics.median(ratios.values()), 1.0)
        yield Bar(f"worst ratio ({worst})", ratios[worst], 2.0)


def _growth(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[Bar]:
    seconds = {name: row["shapeproof"]["seconds"] for name, row in rows.items()}
    if {"llama", "llama_32_layers"} <= seconds.keys():
        power = math.log(seconds["llama_32_layers"] / seconds["llama"]) / math.log(32 / 4)
        yield Bar("power of the layers by which Llama grows", power, 1.0)
    for small, large, most in (("dims_1", "dims_16", 4.0), ("swin", "swin_four_stages", 2.0)):
        if {small, large} <= seconds.keys():
            yield Bar(f"{large} by {small}", seconds[large] / seconds[small], most, _unsettled(rows[large]))


def _unsettled(row: Mapping[str, Any]) -> str:
    outcome = str(row["shapeproof"]["outcome"])
    return "" if outcome in {"proved", "refuted", "ConstraintViolation"} else outcome
