"""Torch's tests of torch.export, by torch's export and by ours: `make upstream FILES=.../test/export`.

    python -m upstream FILES [--limit SECONDS] [NAME ...]

Fails where a test fails with ours alone, and its line in results.txt names no policy.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from upstream.apart import apart
from upstream.kept import Line, keep, results, verdict
from upstream.suite import load


def main() -> int:
    """Run what the command line names, or all tests; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, metavar="FILES", help="the folder test/export of torch's source")
    parser.add_argument("names", nargs="*", metavar="NAME", help="tests, as test_basic; all, if there is none")
    parser.add_argument("--limit", type=float, default=300, help="seconds until a test is broken off")
    options = parser.parse_args()
    tests = load(options.files)
    chosen = [each for each in tests if not options.names or each.partition(".")[2] in options.names]
    if not chosen:
        parser.error(f"no such test: {', '.join(options.names)}")
    kept = results()
    found = {}
    for name in chosen:
        torchs, ours = (apart(name, tests[name], each, options.limit) for each in ("torch", "shapeproof"))
        word = verdict(torchs, ours, kept.get(name))
        found[name] = Line(name, word, ours.error)
        print(found[name], ours.said, flush=True)
        keep({each: line for each, line in (kept | found).items() if each in tests})
    counts = Counter(line.verdict for line in found.values())
    print(*(f"{count} {word}" for word, count in sorted(counts.items())), sep=", ")
    return 1 if counts["fails"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
