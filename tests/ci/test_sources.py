"""What a process has read is known, or it is said that it is not: asked of processes that do all sorts of things."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pydantic
import pytest

from shapeproof.ci.process.digests import SITE, digest

PROLOGUE = """
import json, os, sys, time
from shapeproof.ci.process.recorder import Recorder
recorder = Recorder(int(sys.argv[1]))
"""


@pytest.fixture
def folder(tmp_path):
    """A project with a module, a package and data."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "package" / "part.py").write_text("from package import __name__\n", encoding="utf-8")
    (tmp_path / "module.py").write_text("import package.part\n", encoding="utf-8")
    (tmp_path / "data.txt").write_text("1\n", encoding="utf-8")
    return tmp_path


def sources(folder, program, begin=None):
    """What a process that runs the program in the folder says that it has read; paths from the folder."""
    text = f"{PROLOGUE}{program}\nprint(json.dumps(recorder.sources()))"
    begin = time.time_ns() if begin is None else begin
    run = [sys.executable, "-c", text, str(begin)]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return found and {path.removeprefix(f"{folder}/"): known for path, known in found.items()}


def sha(content):
    return hashlib.sha256(content).hexdigest()


def test_imported_modules_are_sources_again_when_they_come_from_a_cache(folder):
    for _ in range(2):  # the second time from __pycache__
        found = sources(folder, "import module")
        assert found["module.py"] == sha(b"import package.part\n")
        assert {"package/__init__.py", "package/part.py"} <= found.keys()
        assert "data.txt" not in found


def test_data_that_is_opened_is_a_source_and_so_is_what_was_not_there(folder):
    program = """
open("data.txt").close()
os.close(os.open(os.path.abspath(b"module.py"), os.O_RDONLY))
try: open("absent.txt")
except OSError: pass
"""
    found = sources(folder, program)
    assert found["data.txt"] == sha(b"1\n")
    assert found["absent.txt"] == "absent"
    assert "module.py" in found


def test_a_path_is_meant_from_where_the_process_then_was(folder):
    found = sources(folder, "open('data.txt').close(); os.chdir('package'); open('part.py').close(); os.listdir()")
    assert {"data.txt", "package/part.py", "package/"} <= found.keys()
    assert not {"package/data.txt", "part.py"} & found.keys()


def test_the_recorder_is_not_in_the_way(folder):
    """Whoever else raises an event of the same name, and a working directory that is gone."""
    sources(folder, "sys.audit('open'); sys.audit('open', 1, 2); sys.audit('os.listdir')")
    sources(folder, "os.mkdir('d'); os.chdir('d'); os.rmdir('../d')\ntry: open('x')\nexcept OSError: os.chdir('..')")


def test_what_an_extension_module_opens_by_itself_is_a_source(folder):
    program = "import ctypes; libc = ctypes.CDLL(None); libc.close(libc.open(b'data.txt', 0))"
    assert sources(folder, program) is None  # the user's code may do anything by ctypes
    program = "import ssl\ntry: ssl.SSLContext(ssl.PROTOCOL_TLS).load_verify_locations('data.txt')\nexcept OSError: 0"
    assert sources(folder, program)["data.txt"] == sha(b"1\n")


UNSEEN = "import multiprocessing.util as m; os.waitpid(m.spawnv_passfds(b'/bin/true', [b'true'], ()), 0)"
"""Starts a process, and no event says so."""


def test_a_process_that_ended_before_the_models_code_ran_is_no_source_of_it(folder):
    """CUDA's Python packages list the system's libraries when torch is imported: no verdict was remembered."""
    again = "recorder = Recorder(int(sys.argv[1]))"
    assert sources(folder, f"{UNSEEN}\n{again}\nimport module") is not None
    assert sources(folder, f"{UNSEEN}\n{again}\n{UNSEEN}") is None
    assert sources(folder, UNSEEN) is None


def test_a_file_among_devices_is_a_file(folder):
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as shared:
        shared.write(b"1\n")
        shared.flush()
        program = f"open({shared.name!r}).close(); open('/dev/null').close()"
        found = sources(folder, program)
    assert found[shared.name] == sha(b"1\n")
    assert "/dev/null" not in found


def test_what_is_looked_at_and_which_variables_are_read_are_sources(folder):
    program = "os.path.exists('absent'); os.access('data.txt', os.R_OK); os.getenv('NEVER_SET'); 'HOME' in os.environ"
    found = sources(folder, program)
    assert found["absent"] == "absent"
    assert found["data.txt"] == sha(b"1\n")
    assert {"env:HOME", "env:NEVER_SET"} <= found.keys()


def test_a_listing_is_a_source(folder):
    listed = sources(folder, "os.listdir('package')")["package/"]
    assert listed == digest(f"{folder}/package/")
    (folder / "package" / "more.txt").write_text("", encoding="utf-8")
    assert listed != digest(f"{folder}/package/")


SHADOWS = ["module/__init__.py", "module.so", "package/part/__init__.py", "absent.py", "absent/part.py", "json.py"]


@pytest.mark.parametrize("path", SHADOWS)
def test_a_module_that_would_come_first_is_noticed(folder, path):
    """What is imported, or was sought in vain, may be found in another place later."""
    found = sources(folder, "import module, importlib.util; importlib.util.find_spec('absent')")
    assert all(known == digest(key_in(folder, key)) for key, known in found.items())
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_text("", encoding="utf-8")
    assert any(known != digest(key_in(folder, key)) for key, known in found.items())


def switched(folder):
    (folder / "current").unlink()
    (folder / "current").symlink_to("second")


def described(folder):
    (folder / "mypk-1.0.dist-info").mkdir()
    (folder / "mypk-1.0.dist-info" / "METADATA").write_text("Name: mypk\nVersion: 1.0\n", encoding="utf-8")


def made_a_folder(folder):
    (folder / "first" / "entry").unlink()
    (folder / "first" / "entry").mkdir()


LOOKED_AT = {
    "where a link leads": ("os.path.realpath('current')", switched),
    "a link": ("os.readlink('current')", switched),
    "a link to nothing": ("os.path.lexists('dangling')", lambda at: (at / "dangling").symlink_to("nowhere")),
    "the version of a package": ("import importlib.metadata as m; list(m.distributions())", described),
    "the kind of an entry": ("[each.is_dir() for each in os.scandir('first')]", made_a_folder),
    "the size of an entry": (
        "[each.stat().st_size for each in os.scandir('first')]",
        lambda at: (at / "first" / "entry").write_text("more", encoding="utf-8"),
    ),
}


@pytest.mark.parametrize("name", LOOKED_AT)
def test_what_is_looked_at_beside_content_is_a_source(folder, name):
    """The fault: a verdict was found again after these edits."""
    for each in ("first", "second"):
        (folder / each).mkdir()
        (folder / each / "entry").write_text("", encoding="utf-8")
    (folder / "current").symlink_to("first")
    program, edit = LOOKED_AT[name]
    found = sources(folder, program)
    assert all(known == digest(key_in(folder, key)) for key, known in found.items())
    edit(folder)
    assert any(known != digest(key_in(folder, key)) for key, known in found.items())


def key_in(folder, key):
    return key if key.startswith(("/", "import:", "metadata:", "env:", "python")) else f"{folder}/{key}"


def test_a_new_file_that_no_import_asks_for_is_no_change(folder):
    """The fault: each verdict of a folder was void after a model was added to it, or a text."""
    found = sources(folder, "import module, importlib.util; importlib.util.find_spec('absent')")
    for path in ("new.py", "package/new.py", "new.txt", "package/absent.py"):
        (folder / path).write_text("", encoding="utf-8")
    assert all(known == digest(key_in(folder, key)) for key, known in found.items())


@pytest.mark.parametrize(
    "program",
    [
        "import subprocess; subprocess.run(['true'])",
        "os.system('true')",
        "import pty\nif not pty.fork()[0]: os._exit(0)",
        "import multiprocessing as m; p = m.get_context('spawn').Process(target=len); p.start(); p.join()",
        "import sqlite3; sqlite3.connect('data.db')",
        "import ctypes; ctypes.CDLL(None)",
        "open('/proc/self/status').close()",
        "os.mkfifo('fifo'); os.open(os.path.abspath('fifo'), os.O_RDONLY | os.O_NONBLOCK)",
        "dict(os.environ)",
        "os.listdir(os.open(os.getcwd(), os.O_RDONLY))",
        "open('/dev/zero').close()",
        "open('made.txt', 'w').close()\nopen('made.txt').close()\nopen('made.txt', 'w').write('1')\n",
    ],
)
def test_when_in_doubt_there_is_no_answer(folder, program):
    assert sources(folder, program) is None


def test_a_file_that_an_extension_opened_may_have_changed_since(folder):
    """It is known only afterwards, so a file that is newer than the process may be another one than was read."""
    program = "import ssl\ntry: ssl.SSLContext(ssl.PROTOCOL_TLS).load_verify_locations('data.txt')\nexcept OSError: 0"
    assert sources(folder, program) is not None
    assert sources(folder, program, begin=time.time_ns() - 10**12) is None


def test_a_file_that_changed_since_it_was_read_is_doubtful(folder):
    change = "open('package/part.py', 'w').write('1')"
    assert sources(folder, f"import module; {change}") is None
    assert sources(folder, f"{change}; import package.part") is not None


def test_installed_files_are_known_by_their_content(folder):
    """A version is a name: another content under the same one is another dependency."""
    found = sources(folder, "import pydantic")
    assert found[pydantic.__file__] == sha(Path(pydantic.__file__).read_bytes())
    assert f"{Path(pydantic.__file__).parent}/" in found


def test_a_link_to_installed_code_is_known_by_its_content(folder):
    """Installing another checkout of a project as editable changes a `.pth` file, and no name."""
    links = {path for path in sources(folder, "") if path.endswith(".pth")}
    assert {str(path) for site in SITE for path in Path(site).glob("*.pth")} <= links


def test_a_list_by_an_installed_package_is_no_doubt(folder):
    """networkx, which torch imports, lists the environment for the variables with its prefix."""
    found = sources(folder, "import networkx")
    assert found is not None
    assert "env:OLDPWD" not in found


@pytest.mark.parametrize("variables", ["os.environ", "os.environb"])
def test_the_environment_behaves_as_before(folder, variables):
    program = f"""
import copy
e = {variables}
plain = dict(e._data)
assert len(e) == len(plain) and set(e.copy().items()) == set(e.items()) == set(zip(e, e.values()))
assert copy.deepcopy(e) == e and isinstance(e, os._Environ) and repr(e)
os.environ["A"] = "b"
assert os.environ["A"] == "b" and os.environb[b"A"] == b"b"
"""
    sources(folder, program)


def test_a_copy_of_a_link_is_one(folder):
    """`shutil.copystat` asks whether `os.stat` is known to follow links."""
    sources(folder, "import shutil; os.symlink('data.txt', 'link'); shutil.copytree('.', 'sub/copy', symlinks=True)")


def test_a_path_through_a_link_is_the_one_that_the_system_opens(folder):
    (folder / "deep" / "inner").mkdir(parents=True)
    (folder / "deep" / "data.txt").write_text("2\n", encoding="utf-8")
    (folder / "link").symlink_to("deep/inner")
    assert sources(folder, "open('link/../data.txt').close()")["link/../data.txt"] == sha(b"2\n")
