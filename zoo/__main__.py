"""What torch.export and shapeproof make of each entry of the zoo: `make zoo`, `make zoo ONLY=bert`.

    python -m zoo [--again] [--limit SECONDS] [NAME ...]

An entry whose result is there, of the same versions, is not measured again; `--again` and names ask for it. Each
exporter has a process of its own. An entry whose package is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from zoo.attempt import apart, prepare
from zoo.families import ENTRIES, FAMILIES
from zoo.kept import keep, results

EXPORTERS = ("torch", "shapeproof")
PYPI = {"x_transformers": "x-transformers", "vit_pytorch": "vit-pytorch"}


def versions(name: str) -> dict[str, str]:
    """The releases that a result depends on."""
    needs = ENTRIES[name].needs
    packages = dict.fromkeys(("torch", needs))
    return {each: version(PYPI.get(each, each)).partition("+")[0] for each in packages}


def measured(name: str, limit: float) -> dict[str, Any]:
    """Both exporters on one entry, each in a process of its own."""
    return {"name": name, "versions": versions(name), **{each: apart(each, name, limit) for each in EXPORTERS}}


def todo(names: Iterable[str], *, again: bool) -> list[tuple[str, str]]:
    """The families and names of what is to be measured."""
    wanted = set(names)
    found = []
    for family, entries in FAMILIES.items():
        old = results(family)
        for name, entry in entries.items():
            installed = importlib.util.find_spec(entry.needs) is not None
            is_new = name not in old or (installed and old[name]["versions"] != versions(name))
            if installed and (name in wanted or (not wanted and (again or is_new))):
                found.append((family, name))
    return found


def line(found: dict[str, Any]) -> str:
    """One result, for people who wait."""
    cells = [f"{found[each]['seconds']:6.1f} s  {found[each]['status']:<10}" for each in EXPORTERS]
    differ = [f"{each}: {found[each]['at']}" for each in EXPORTERS if found[each].get("at")]
    return f"{found['name']:<28} {'  '.join(cells)} {'; '.join(differ)}"


def main() -> None:
    """Measure what the command line names, or what is not measured yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--again", action="store_true", help="measure what was measured, too")
    parser.add_argument("--limit", type=float, default=120, help="seconds until an exporter is broken off")
    options = parser.parse_args()
    if unknown := set(options.names) - ENTRIES.keys():
        parser.error(f"unknown entry {', '.join(sorted(unknown))}; there are {', '.join(sorted(ENTRIES))}")
    rest = todo(options.names, again=options.again)
    prepare()
    for index, (family, name) in enumerate(rest, 1):
        found = measured(name, options.limit)
        keep(family, found)
        print(f"{index}/{len(rest)}  {line(found)}", flush=True)


if __name__ == "__main__":
    main()
