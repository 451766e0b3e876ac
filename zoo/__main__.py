"""What torch.export and shapeproof make of each entry of the zoo: `make zoo`, `make zoo ONLY=bert`.

    python -m zoo [--again] [--limit SECONDS] [--form FORM] [--processes N | --executor dask://HOST:PORT] [NAME ...]

An entry whose result is there, of the same versions, is not measured again; `--again` and names ask for it. Each
exporter has a process of its own. An entry whose package is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterable

from zoo.declared import FORMS
from zoo.families import ENTRIES, FAMILIES
from zoo.kept import keep, results
from zoo.measuring import executor, line, measured, versions


def todo(names: Iterable[str], form: str, *, again: bool) -> dict[str, str]:
    """The names of what is to be measured, and their families."""
    wanted = set(names)
    found = {}
    for family, entries in FAMILIES.items():
        old = results(family, form)
        for name, entry in entries.items():
            installed = importlib.util.find_spec(entry.needs) is not None
            is_new = name not in old or (installed and old[name]["versions"] != versions(name))
            if installed and (name in wanted or (not wanted and (again or is_new))):
                found[name] = family
    return found


def main() -> None:
    """Measure what the command line names, or what is not measured yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--again", action="store_true", help="measure what was measured, too")
    parser.add_argument("--limit", type=float, default=120, help="seconds until an exporter is broken off")
    parser.add_argument("--form", choices=FORMS, default="dims", help="how the sizes are declared")
    parser.add_argument("--processes", type=int, default=1, help="how many entries are measured at a time")
    parser.add_argument("--executor", help="a Dask cluster, dask://HOST:PORT, in place of processes here")
    options = parser.parse_args()
    if unknown := set(options.names) - ENTRIES.keys():
        parser.error(f"unknown entry {', '.join(sorted(unknown))}; there are {', '.join(sorted(ENTRIES))}")
    rest = todo(options.names, options.form, again=options.again)
    with executor(options.executor, options.processes) as run:
        for index, found in enumerate(run(measured, rest, options.form, options.limit), 1):
            keep(rest[found["name"]], options.form, found)
            print(f"{index}/{len(rest)}  {line(found)}", flush=True)


if __name__ == "__main__":
    main()
