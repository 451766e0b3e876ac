"""Files are replaced as a whole: through links, with their permissions, and never half."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shapeproof import files
from shapeproof.files import read_bounded, whole_file, write_whole


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_and_replaced(tmp_path):
    for text in ("one", "two"):
        write_whole(tmp_path / "file", text)
        assert (tmp_path / "file").read_text(encoding="utf-8") == text
    assert names(tmp_path) == ["file"]


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "real").write_text("before", encoding="utf-8")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "new link").symlink_to("absent")
    for link in ("link", "new link"):
        write_whole(tmp_path / link, "after")
        assert (tmp_path / link).is_symlink()
        assert (tmp_path / link).read_text(encoding="utf-8") == "after"
    assert names(tmp_path) == ["absent", "link", "new link", "real"]


def test_permissions_stay(tmp_path):
    (tmp_path / "file").write_text("secret", encoding="utf-8")
    (tmp_path / "file").chmod(0o600)
    write_whole(tmp_path / "file", "other")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_path_need_not_be_utf_8(tmp_path):
    name = os.fsdecode(b"caf\xe9")
    write_whole(tmp_path / name, "x")
    assert [os.fsencode(each) for each in names(tmp_path)] == [b"caf\xe9"]


@pytest.mark.parametrize(
    ("path", "message"), [("absent/file", "No such file"), (".", "Is a directory"), ("a\0b", "null")]
)
def test_what_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path, path, message):
    with pytest.raises((OSError, ValueError), match=message):
        write_whole(tmp_path / path, "x")
    assert names(tmp_path) == []


def test_what_fails_on_the_way_leaves_what_was_there(tmp_path):
    write_whole(tmp_path / "file", "before")

    def fail():
        with whole_file(tmp_path / "file") as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "file").read_text(encoding="utf-8") == "before"
    assert names(tmp_path) == ["file"]


def test_a_device_is_written_to_and_stays_one(tmp_path):
    write_whole(tmp_path.joinpath("/dev/null"), "x")
    assert tmp_path.joinpath("/dev/null").is_char_device()
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path.joinpath("/dev/full"), "x")
    program = (
        "from pathlib import Path; from shapeproof.files import write_whole; write_whole(Path('/dev/stdout'), 'x')"
    )
    with (tmp_path / "out").open("w") as out:
        out.write("before ")
        out.flush()
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert (tmp_path / "out").read_text(encoding="utf-8") == "before x"


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


def test_a_kill_in_the_middle_of_a_write_leaves_no_half_file_under_its_name(tmp_path):
    path = tmp_path / "file"
    for moment in range(1, 9):
        with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as process:
            for _ in range(moment):
                process.stdout.readline()
            process.kill()
        if moment > 1:
            assert path.read_bytes() == b"a" * 50_000 + b"b" * 50_000
