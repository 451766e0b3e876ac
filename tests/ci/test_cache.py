"""An answer is found again only where nothing that it depends on has changed, whatever became of the file it is in."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shapeproof.ci.jobs import ANSWER, Accepted, Answer, Job, Result
from shapeproof.ci.process.digests import digest
from shapeproof.ci.running.cache import FOLDER, recalled, remember
from shapeproof.ci.running.run import changed_since
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.constraints.records.diagnostics import Diagnostic, Help, Note

NOTE = Note("declared", "n >= 1", SourceLocation("net.py", 3, "x"))
FOUND = Diagnostic("divides", "no", "error", "net.py", 3, (NOTE,), {"n": 1}, (Help("do", "proved"),))
RESULT = Result("refuted", "text", (FOUND,), Accepted({"x": ["n"]}, ("n >= 1",)), ("note",), 1.5)


@pytest.fixture
def job(tmp_path):
    (tmp_path / "net.py").write_text("1\n", encoding="utf-8")
    return Job(root=str(tmp_path), target="net:Net")


def answer(job, **changes):
    path = f"{job.root}/net.py"
    keys = (path, f"{job.root}/", "python")
    return Answer(**({"result": RESULT, "sources": {key: digest(key) for key in keys}} | changes))


def recall(job, changed=frozenset()):
    return recalled(job, changed, digest)


def test_what_was_remembered_is_recalled_whole(job):
    remember(job, answer(job))
    assert recall(job) == RESULT


def test_another_job_is_another_question(job):
    remember(job, answer(job))
    assert recall(job.model_copy(update={"relations": ("n < 8",)})) is None


def test_a_source_that_changed_is_noticed(job, tmp_path):
    remember(job, answer(job))
    (tmp_path / "net.py").write_text("2\n", encoding="utf-8")
    assert recall(job) is None
    (tmp_path / "net.py").write_text("1\n", encoding="utf-8")
    assert recall(job) == RESULT
    (tmp_path / "torch.py").write_text("", encoding="utf-8")
    assert recall(job) is None


def test_a_source_that_is_not_as_in_the_revision_is_noticed(job, tmp_path):
    remember(job, answer(job))
    assert recall(job, {f"{tmp_path}/other.py"}) == RESULT
    assert recall(job, {f"{tmp_path}/net.py"}) is None
    assert recall(job, {str(tmp_path)}) is None  # a submodule is listed as a whole


@pytest.mark.parametrize("attribute", ["sys.version", "shapeproof.ci.process.digests.INSTALLED"])
def test_another_interpreter_is_noticed(job, monkeypatch, attribute):
    remember(job, answer(job))
    monkeypatch.setattr(attribute, "another")
    assert recall(job) is None


@pytest.mark.parametrize("changes", [{"sources": None}, {"result": Result(None, "crashed")}])
def test_what_is_not_sure_is_not_remembered(job, changes):
    remember(job, answer(job, **changes))
    assert recall(job) is None


def test_an_entry_is_about_its_job_and_shows_its_sources(job, tmp_path):
    remember(job, answer(job, sources={}))
    assert not (tmp_path / FOLDER).exists()
    remember(job, answer(job))
    other = job.model_copy(update={"target": "net:Other"})
    (entry,) = (tmp_path / FOLDER).glob("*.json")
    remember(other, answer(other, result=Result("proved", "other")))
    (another,) = set((tmp_path / FOLDER).glob("*.json")) - {entry}
    another.replace(entry)
    assert recall(job) is None


def test_a_time_limit_is_no_other_question(job):
    remember(job, answer(job))
    assert recall(job.model_copy(update={"timeout": 1.0})) == RESULT


@pytest.mark.quick
@pytest.mark.parametrize(
    "damage", [lambda text: text[:-40], lambda _: b"", lambda text: text.replace(b"refuted", b"?")]
)
def test_an_entry_that_cannot_be_read_is_none(job, tmp_path, damage):
    remember(job, answer(job))
    (entry,) = (tmp_path / FOLDER).glob("*.json")
    entry.write_bytes(damage(entry.read_bytes()))
    assert recall(job) is None


def test_a_folder_that_cannot_be_written_to_has_no_cache(tmp_path):
    job = Job(root=str(tmp_path / "absent"), target="net:Net")
    remember(job, Answer(RESULT, {}))
    assert recall(job) is None


WRITER = """
import sys
from shapeproof.ci.running.cache import remember
from shapeproof.ci.jobs import ANSWER, Job
job, answer = Job.model_validate_json(sys.argv[1]), ANSWER.validate_json(sys.argv[2])
while True:
    remember(job, answer)
    print(flush=True)
"""


@pytest.mark.thorough
def test_a_kill_at_any_moment_leaves_a_whole_entry(job):
    long = answer(job, result=Result("proved", "x" * 100_000))
    for moment in range(1, 8):
        run = [sys.executable, "-c", WRITER, job.model_dump_json(), ANSWER.dump_json(long).decode()]
        with subprocess.Popen(run, stdout=subprocess.PIPE) as process:
            for _ in range(moment):
                process.stdout.readline()
            process.kill()
        assert recall(job) == long.result


# ---------------------------------------------------------------------- git


def git(folder, *arguments):
    settings = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *settings, *arguments], cwd=folder, check=True, capture_output=True)  # noqa: S607


def test_what_changed_since_a_revision(tmp_path):
    for name in ("same", "edited", "gone", "renamed", "staged"):
        (tmp_path / f"{name} ä.py").write_text(f"{name}\n" * 10, encoding="utf-8")
    (tmp_path / ".gitignore").write_text("ignored.py\n", encoding="utf-8")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    (tmp_path / "edited ä.py").write_text("2\n", encoding="utf-8")
    (tmp_path / "gone ä.py").unlink()
    (tmp_path / "renamed ä.py").rename(tmp_path / "new ä.py")
    (tmp_path / "ignored.py").write_text("", encoding="utf-8")
    (tmp_path / "staged ä.py").write_text("3\n", encoding="utf-8")
    git(tmp_path, "add", "staged ä.py")
    (tmp_path / "inner").mkdir()
    found = changed_since("HEAD", tmp_path / "inner")
    changed = {f"{tmp_path}/{name} ä.py" for name in ("edited", "gone", "renamed", "new", "staged")}
    assert found == changed
    git(tmp_path, "commit", "-am", "second")
    assert f"{tmp_path}/edited ä.py" in changed_since("HEAD~1", tmp_path)
    assert changed_since("HEAD", tmp_path) == {f"{tmp_path}/new ä.py"}


def test_no_revision_and_no_repository(tmp_path):
    with pytest.raises(UsageError, match="is in no git repository"):
        changed_since("HEAD", tmp_path)
    git(tmp_path, "init")
    assert changed_since("HEAD", tmp_path) == {str(tmp_path)}  # all of it: nothing is committed yet
    for revision in ("absent", "--output=x", ""):
        with pytest.raises(UsageError, match="there is no revision"):
            changed_since(revision, tmp_path)
    assert not (tmp_path / "x").exists()
