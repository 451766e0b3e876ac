"""The list of disagreements: a file to be read by the tests, and a page to be read by people.

Each way in which an operator disagrees has one line, with the smallest call, and why it cannot give a wrong "proved".
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.operators.calls import Call
from benchmarks.operators.gathering import ROOT, Gathered
from benchmarks.operators.watching import Disagreement

LIST = Path(__file__).parent / "disagreements.json"
PAGE = ROOT / "docs" / "explanation" / "where-fakes-differ.md"

ORDER = (
    "sizes",
    "dtype",
    "results",
    "bits",
    "sharing",
    "strides",
    "offset",
    "idle strides",
    "values",
    "refuses",
    "raises",
)

BECAUSE: Mapping[str, str] = {
    "raises": "the program calls the kernel, which raises as in eager",
    "refuses": "there is no trace, and so no program",
}


def figures(into: Gathered) -> str:
    """What was swept, and what was found."""
    kinds = Counter((source, kind) for _, source, kind in into.found)
    wrong = [one for each in into.tried for one in each["tried"] if one["wrong"]]
    swept = f"{into.swept} functions, {into.most} samples of each dtype: run {into.samples} times, {into.calls} calls"
    lines = [f"{swept}; {len(into.found)} ways to disagree, {len(wrong)} wrong proofs"]
    lines += [f"{count:5} {source}: {kind}" for (source, kind), count in sorted(kinds.items())]
    lines += [f"{count:5} with symbolic sizes: {status}" for status, count in sorted(_statuses(into).items())]
    lines += [f"late: {each}" for each in into.late]
    lines += [f"crashed: {each}" for each in into.crashed]
    return "\n".join(lines)


def _statuses(into: Gathered) -> Counter[str]:
    return Counter(each["status"] for each in into.symbolic)


def write(into: Gathered) -> None:
    """Write the list and the page."""
    tried = {_key(each["found"]): each["tried"] for each in into.tried}
    rows = [{**each.data(), "tried": tried.get(_key(each.data()), [])} for kept in into.found.values() for each in kept]
    rows.sort(key=lambda row: (ORDER.index(row["kind"]), row["call"]["op"], row["source"]))
    faults = [each for each in into.symbolic if each["status"] == "fault"]
    about = {"torch": torch.__version__.partition("+")[0], "figures": figures(into)}
    lines = [json.dumps(each) for each in rows]
    LIST.write_text(
        f'{{"about": {json.dumps(about)},\n"symbolic": {json.dumps(faults)},\n"found": [\n'
        + ",\n".join(lines)
        + "\n]}\n"
    )
    PAGE.write_text(page(about, rows, faults))


def _key(data: Mapping[str, Any]) -> str:
    return json.dumps([data["call"], data["source"], data["kind"]], sort_keys=True)


def listed() -> list[tuple[Disagreement, list[dict[str, Any]]]]:
    """The disagreements as they are committed, each with what became of the programs that looked at it."""
    rows = json.loads(LIST.read_text())["found"]
    names = Disagreement.__dataclass_fields__
    return [(Disagreement.of({name: row[name] for name in names}), row["tried"]) for row in rows]


_HEAD = """# Where torch's fake kernels differ from its kernels

`make sweep-operators` runs torch {torch}'s own database of operators and compares each call with torch's fake kernel,
and with the decomposition that `run_decompositions` applies: number, sizes, dtype, strides and offset of the results,
and which tensors share storage. Sizes 0 and 1 and other layouts are in it. Each disagreement is then tried: programs
with dynamic sizes look at what differs, and run beside eager. None of them may be proved and do something else.

```text
{figures}
```

Why a disagreement cannot give a wrong "proved":

- **run**: the programs that were tried are proved, and do what eager does where the two differ: a program runs the
  kernel, and nothing that was read of the fake's result shows.
- **refuted**, **undecided**, or no program: the difference is seen by a replay, or the sizes are refused. Replays
  compare strides and shared storage of results, and run where sizes are 0 and 1 of a tensor whose layout is read.
- **a rule**: where a size of 0 makes torch's fake wrong (`pixel_unshuffle`), the trace goes by a rule of this project.
  Losses that write no result of no rows (`multi_margin_loss`) are refused there.

Strides that reach no element (of a size of 1, or where there is no element) are listed as *idle strides*.
"""


def page(about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], faults: Sequence[Mapping[str, Any]]) -> str:
    """The page."""
    parts = [_HEAD.format(**about)]
    for kind in ORDER:
        chosen = list(_first([row for row in rows if row["kind"] == kind]))
        if chosen and kind in BECAUSE:
            parts += [f"## {kind}: {BECAUSE[kind]}\n", *_short(chosen)]
        elif chosen:
            parts += [f"## {kind}\n", "| call | kernel | torch says | tried |", "|---|---|---|---|"]
            parts += [f"| {' | '.join(map(_cell, _columns(row)))} |" for row in chosen]
        parts += [""] * bool(chosen)
    if faults:
        parts += ["## With symbolic sizes\n", "| operator | what a run shows |", "|---|---|"]
        parts += [f"| {_cell(each['call']['op'])} | {_cell(each['said'])} |" for each in faults]
    return "\n".join(parts).rstrip() + "\n"


def _first(rows: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The smallest call of each operator and source; of a function none whose operator is listed with the same."""
    seen: set[Any] = set()
    for row in sorted(rows, key=lambda row: row["call"]["op"]):
        key = row["call"]["op"], row["source"]
        if key not in seen:
            seen.add(key)
            yield row


def _short(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        told = row["kernel"] if row["kind"] == "raises" else row["said"]
        yield f"- {_cell(str(Call(**row['call'])))}: {told[:120]}"


def _columns(row: Mapping[str, Any]) -> list[str]:
    call = str(Call(**row["call"])) + (" (decomposition)" if row["source"] == "decomposition" else "")
    return [call, row["kernel"], row["said"], _outcome(row["tried"])]


def _outcome(tried: Sequence[Mapping[str, Any]]) -> str:
    wrong = [one for one in tried if one["wrong"]]
    if wrong:
        return f"WRONG: {wrong[0]['reading']}: {wrong[0]['wrong']}"
    return ", ".join(f"{one['reading']}: {_status(one['status'])}" for one in tried)


def _status(status: str) -> str:
    return "run" if status == "proved" else status.partition(":")[0]


def _cell(text: str) -> str:
    return "`" + text.replace("|", "/").replace("`", "'")[:160] + "`" if text else ""
