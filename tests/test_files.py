"""Files are replaced as a whole: through links, with their permissions, and never half."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shapeproof import files
from shapeproof.files import read_bounded, whole_file, write_whole


@pytest.fixture(params=["unnamed", "named"])
def folder(request, tmp_path, monkeypatch):
    """With files that have no name, and as on a file system that has none."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE")
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_and_replaced(folder):
    for text in ("one", "two"):
        write_whole(folder / "file", text)
        assert (folder / "file").read_text(encoding="utf-8") == text
    assert names(folder) == ["file"]


def test_a_link_stays_and_its_target_is_replaced(folder):
    (folder / "real").write_text("before", encoding="utf-8")
    (folder / "link").symlink_to("real")
    (folder / "new link").symlink_to("absent")
    for link in ("link", "new link"):
        write_whole(folder / link, "after")
        assert (folder / link).is_symlink()
        assert (folder / link).read_text(encoding="utf-8") == "after"
    assert names(folder) == ["absent", "link", "new link", "real"]


def test_permissions_stay(folder):
    (folder / "file").write_text("secret", encoding="utf-8")
    (folder / "file").chmod(0o600)
    write_whole(folder / "file", "other")
    assert (folder / "file").stat().st_mode & 0o777 == 0o600


def test_a_path_need_not_be_utf_8(folder):
    name = os.fsdecode(b"caf\xe9")
    write_whole(folder / name, "x")
    assert [os.fsencode(each) for each in names(folder)] == [b"caf\xe9"]


@pytest.mark.parametrize(
    ("path", "message"), [("absent/file", "No such file"), (".", "Is a directory"), ("a\0b", "null")]
)
def test_what_cannot_be_written_is_an_error_and_leaves_nothing(folder, path, message):
    with pytest.raises((OSError, ValueError), match=message):
        write_whole(folder / path, "x")
    assert names(folder) == []


def test_what_fails_on_the_way_leaves_what_was_there(folder):
    write_whole(folder / "file", "before")

    def fail():
        with whole_file(folder / "file") as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (folder / "file").read_text(encoding="utf-8") == "before"
    assert names(folder) == ["file"]


def test_a_device_is_written_to_and_stays_one(folder):
    write_whole(folder.joinpath("/dev/null"), "x")
    assert folder.joinpath("/dev/null").is_char_device()
    with pytest.raises(OSError, match="No space left"):
        write_whole(folder.joinpath("/dev/full"), "x")
    program = (
        "from pathlib import Path; from shapeproof.files import write_whole; write_whole(Path('/dev/stdout'), 'x')"
    )
    with (folder / "out").open("w") as out:
        out.write("before ")
        out.flush()
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert (folder / "out").read_text(encoding="utf-8") == "before x"


def test_what_is_read_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST", 3)
    (tmp_path / "file").write_bytes(b"123")
    assert read_bounded(tmp_path / "file") == b"123"
    (tmp_path / "file").write_bytes(b"1234")
    with pytest.raises(OSError, match="File too large"):
        read_bounded(tmp_path / "file")


WRITER = """
import sys
from pathlib import Path
from shapeproof.files import whole_file
while True:
    with whole_file(Path(sys.argv[1])) as file:
        file.write(b"a" * 50_000)
        print(flush=True)
        file.write(b"b" * 50_000)
"""


def test_a_kill_in_the_middle_of_a_write_leaves_nothing_half(tmp_path):
    path = tmp_path / "file"
    for moment in range(1, 9):
        with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as process:
            for _ in range(moment):
                process.stdout.readline()
            process.kill()
        assert {each.stat().st_size for each in tmp_path.iterdir()} <= {100_000}
        if moment > 1:
            assert path.read_bytes() == b"a" * 50_000 + b"b" * 50_000
