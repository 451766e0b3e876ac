"""Law: after an edit that changes the verdict, no earlier verdict is found, whatever way the verdict depends on it.

Random small models, each of which asks the machine in several ways, and random edits. Processes are forked from one
that has loaded what all of them need.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from shapeproof.ci.jobs import Answer, Job, Result
from shapeproof.ci.process.digests import digest
from shapeproof.ci.running.cache import recalled, remember
from tests.thoroughness import examples

ZYGOTE = """
import json, os, sys, time
import glob, importlib.resources, linecache, mmap
import multiprocessing, ssl, pathlib, pkgutil, pty, sqlite3, subprocess, zipfile
import numpy
from shapeproof.ci.process.recorder import Recorder

for line in sys.stdin:
    folder, variables = json.loads(line)
    sys.stdout.flush()
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    recorder = Recorder(time.time_ns())
    import main
    verdict = main.verdict()
    print(json.dumps([verdict, recorder.sources()]), flush=True)
    os._exit(0)
"""

MAIN = """
import glob, importlib, importlib.resources, json, linecache, mmap, os, pathlib, pkgutil, subprocess, zipfile
import numpy as np

def tried(probe):
    try:
        return str(probe())
    except Exception as error:
        return type(error).__name__

def mapped():
    with open("data/a.txt", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as found:
        return found[:]

def raw():
    descriptor = os.open(os.path.abspath("data/a.txt"), os.O_RDONLY)
    return os.read(descriptor, 9)

def forgotten():
    import sys, helper
    del sys.modules["helper"]
    return helper.X

def opened_archive():
    with zipfile.ZipFile("data/z.zip") as archive:
        return archive.read("inner")

def from_archive():
    import sys
    sys.path.insert(0, os.path.abspath("data/z.zip"))
    import zipped
    return zipped.X

def of(module):
    return importlib.import_module(module).X

def several():
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(len, [open("data/a.txt").read()])

def spoken():
    import pty
    child, descriptor = pty.fork()
    if not child:
        os.write(1, pathlib.Path("data/a.txt").read_bytes())
        os._exit(0)
    found = os.read(descriptor, 9)
    os.waitpid(child, 0)
    return found

def stored():
    import sqlite3
    return sqlite3.connect("data/base.db").execute("select * from t").fetchall()

def by_an_extension():
    import ssl
    try:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations("data/a.txt")
    except ssl.SSLError as error:
        return "certificate" if "NO_CERTIFICATE" in str(error) else "none"

PROBES = {
    "extension": by_an_extension,
    "own": lambda: X,
    "module": lambda: of("helper"),
    "package": lambda: of("pack"),
    "part": lambda: of("pack.part"),
    "absent": lambda: of("plugin"),
    "namespace": lambda: of("space.inner"),
    "forgotten": forgotten,
    "archive": from_archive,
    "text": lambda: open("data/a.txt").read(),
    "path": lambda: pathlib.Path("data/a.txt").read_bytes(),
    "linked": lambda: open("link.txt").read(),
    "map": mapped,
    "raw": raw,
    "numpy": lambda: np.load("data/b.npy").sum(),
    "memmap": lambda: np.memmap("data/b.npy", mode="r")[-8:].sum(),
    "lines": lambda: linecache.getlines("data/a.txt"),
    "zip": opened_archive,
    "resource": lambda: importlib.resources.files("pack").joinpath("note.txt").read_text(),
    "exists": lambda: os.path.exists("data/a.txt"),
    "is_file": lambda: pathlib.Path("flag").is_file(),
    "is_dir": lambda: os.path.isdir("plugins"),
    "access": lambda: os.access("flag", os.R_OK),
    "size": lambda: os.path.getsize("data/a.txt"),
    "is_link": lambda: os.path.islink("data/a.txt"),
    "list": lambda: sorted(set(os.listdir(".")) - {".shapeproof"}),
    "scan": lambda: sorted((entry.name, entry.is_dir()) for entry in os.scandir("data")),
    "walk": lambda: sorted(map(str, os.walk("plugins"))),
    "glob": lambda: sorted(glob.glob("d*/**/*.txt", recursive=True)),
    "rglob": lambda: sorted(map(str, pathlib.Path("plugins").rglob("*.py"))),
    "modules": lambda: sorted(found.name for found in pkgutil.iter_modules(["plugins"])),
    "spec": lambda: importlib.util.find_spec("plugin") is not None,
    "getenv": lambda: os.getenv("SHAPES_A"),
    "environ": lambda: os.environ.get("SHAPES_B", 0),
    "in": lambda: "SHAPES_A" in os.environ,
    "bytes": lambda: os.environb.get(b"SHAPES_B"),
    "items": lambda: sorted(item for item in os.environ.items() if item[0].startswith("SHAPES")),
    "all": lambda: {name: os.environ[name] for name in os.environ if name.startswith("SHAPES")},
    "process": lambda: subprocess.check_output(["cat", "data/a.txt"]),
    "processes": several,
    "pty": spoken,
    "sqlite": stored,
}

def verdict():
    return [tried(PROBES[name]) for name in CHOSEN]
"""
PROBES = [line.split('"')[1] for line in MAIN.partition("PROBES = {")[2].split("}\n\ndef verdict")[0].splitlines()[1:]]
UNSEEN = {"process", "processes", "pty", "sqlite", "items", "all"}
"""What is never found again: what was read cannot be said, or is the whole environment."""

PATHS = [
    "helper.py", "helper/__init__.py", "pack/__init__.py", "pack/part.py", "pack/part/__init__.py", "pack/note.txt",
    "plugin.py", "plugin/__init__.py", "numpy.py", "space/inner.py", "space/__init__.py", "data/a.txt", "data/b.npy",
    "data/z.zip", "data/sub/c.txt", "data/base.db", "link.txt", "flag", "plugins/one.py", "plugins/two/__init__.py",
    "main.py", "json.py", "unrelated.md", "data/pack.py",
]  # fmt: skip
"""What may be there, or not: modules, packages that shadow them, and data."""
THERE = ["helper.py", "pack/__init__.py", "pack/part.py", "pack/note.txt", "data/a.txt", "data/b.npy", "data/z.zip"]
THERE += ["space/inner.py", "plugins/one.py", "data/base.db"]
VARIABLES = ["SHAPES_A", "SHAPES_B"]


def content(path, value):
    """A file of that kind which says the value."""
    suffix = path.rpartition(".")[2]
    if suffix == "npy":
        file = io.BytesIO()
        np.save(file, np.full(3, value))
        return file.getvalue()
    if suffix == "zip":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("inner", str(value))
            archive.writestr("zipped.py", f"X = {value}\n")
        return file.getvalue()
    return f"X = {value}\n".encode()


class Project:
    """A folder with a model that asks in the chosen ways."""

    def __init__(self, folder, chosen):
        self.folder, self.chosen, self.variables = folder, chosen, {}
        shutil.rmtree(folder, ignore_errors=True)
        for path in [*THERE, "main.py"]:
            self.write(path, 1)
        (folder / "link.txt").symlink_to("data/a.txt")

    def write(self, path, value):
        place = self.folder / path
        for above in reversed(place.relative_to(self.folder).parents):
            if (self.folder / above).is_file():
                (self.folder / above).unlink()
        place.parent.mkdir(parents=True, exist_ok=True)
        self.remove(path)
        body = f"CHOSEN = {self.chosen}\nX = {value}\n{MAIN}".encode() if path == "main.py" else content(path, value)
        place.write_bytes(body)

    def remove(self, path):
        place = self.folder / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    def edit(self, kind, path, value):
        if kind == "variable":
            self.variables[VARIABLES[len(path) % 2]] = str(value)
        elif path == "main.py" or kind == "write":
            self.write(path, value)
        elif kind == "remove":
            self.remove(path)
        elif kind == "folder":
            self.remove(path)
            (self.folder / path).mkdir(parents=True)
        elif kind == "link":
            self.write(path, value)
            other = self.folder / "elsewhere"
            shutil.move(self.folder / path, other)
            (self.folder / path).symlink_to(other)
        elif kind == "empty package":
            self.write(f"{path.partition('.')[0]}/__init__.py", value)


@pytest.fixture(scope="module")
def zygote():
    with subprocess.Popen(
        [sys.executable, "-c", ZYGOTE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as it:
        yield it
        it.stdin.close()


def run(zygote, project):
    zygote.stdin.write(json.dumps([str(project.folder), os.environ | project.variables]) + "\n")
    zygote.stdin.flush()
    return json.loads(zygote.stdout.readline())


EDITS = st.tuples(
    st.sampled_from(["write", "write", "remove", "folder", "link", "empty package", "variable"]),
    st.sampled_from([*PATHS, *THERE, *THERE, "data/a.txt", "data/a.txt", "flag", "flag", "plugin.py"]),
    st.integers(1, 30),
)


def found_again(project, job):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in project.variables.items():
            patch.setenv(name, value)
        return recalled(job, frozenset(), digest)


@pytest.mark.thorough
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PROBES), min_size=1, max_size=4), st.lists(EDITS, min_size=1, max_size=3))
@example(["module"], [("write", "helper/__init__.py", 2)])
@example(["module", "absent"], [("write", "plugin/__init__.py", 2)])
@example(["numpy"], [("write", "numpy.py", 2)])
@example(["part"], [("empty package", "pack/part.py", 2)])
@example(["pty"], [("write", "data/a.txt", 2)])
@example(["processes"], [("write", "data/a.txt", 22)])
@example(["sqlite"], [("write", "data/base.db", 2)])
@example(["modules"], [("write", "plugins/two/__init__.py", 2)])
@example(["linked"], [("write", "data/a.txt", 2)])
@example(["getenv"], [("variable", "flag", 2)])
def test_after_an_edit_that_changes_the_verdict_it_is_checked_again(zygote, tmp_path, chosen, edits):
    project = Project(tmp_path / "project", chosen)
    verdict, sources = run(zygote, project)
    assert (sources is None) == bool(UNSEEN & set(chosen))
    job = Job(root=str(project.folder), target="main:verdict")
    remember(job, Answer(Result("proved", str(verdict)), sources))
    assert (found_again(project, job) is None) == (sources is None)
    for edit in edits:
        project.edit(*edit)
    found = found_again(project, job)
    again, _ = run(zygote, project)
    event(f"changed: {again != verdict}, found: {found is not None}")
    if found is not None:
        assert again == verdict
