#!/usr/bin/env bash
# Usage: on_python.sh PYTHON TEST...
#
# Run tests with another Python: a version (3.13) or an interpreter. It makes an environment of its own when first
# called, .venv-py3.13, with the pinned torch and what these tests need, and no library for GPUs.
set -euo pipefail
wanted=$1
shift

version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
python=
for each in "$wanted" "python$wanted" "$HOME/.pyenv/versions/$wanted"*/bin/python; do
    # A name that pyenv puts on PATH may not run.
    if found=$(version "$each") && [[ "$each" == "$wanted" || "$wanted." == "$found".* ]]; then
        python=$each
        break
    fi
done
[ -n "$python" ] || { echo "expected a version of Python that is installed, or an interpreter; got $wanted" >&2; exit 2; }
environment=.venv-py$found
install() { "$environment/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --constraint constraints.txt "$@"; }
if [ ! "$environment/.made" -nt constraints.txt ]; then
    echo "making $environment"
    "$python" -m venv --clear "$environment"
    install --no-deps torch
    install filelock typing_extensions sympy networkx jinja2 fsspec setuptools numpy \
        z3-solver pydantic tomlkit rich typer threadpoolctl psutil pytest pytest-xdist hypothesis
    install --no-deps --editable .
    bash tests/stub_libraries.sh "$environment"
    touch "$environment/.made"
fi
LD_LIBRARY_PATH=$environment/stubs "$environment/bin/python" -m pytest -m "not slow and not thorough" \
    --hypothesis-profile=quick --numprocesses auto --dist worksteal "$@"
