"""Every reader of a file, under bytes that were changed, cut off or made up: one sentence, or what is in the file."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shapeproof.ci.jobs import Accepted, Answer, Job, Result
from shapeproof.ci.locked.contracts import Lost, lost
from shapeproof.ci.locked.lock import NAME, read_lock
from shapeproof.ci.process.digests import digest
from shapeproof.ci.running.cache import FOLDER, recalled, remember
from shapeproof.ci.specs.spec import load_spec
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.records.decisions import Decision, Kind, SourceLocation
from shapeproof.constraints.records.diagnostics import Diagnostic, Help, Note
from shapeproof.constraints.records.verdicts import Evidence, Proved, Undecided
from shapeproof.constraints.syntax.text import parse_formula, parse_term
from shapeproof.contract import Contract
from shapeproof.contract.contract import to_data
from shapeproof.contract.inputs import ConstantInput, Entries, Items, Structure, TensorInput
from shapeproof.export import load_report
from shapeproof.export.report.region_map import RegionMap
from shapeproof.export.report.report import Report
from shapeproof.export.report.sizes import Bound
from shapeproof.files import MOST, sha256
from shapeproof.solver.facts import Facts
from shapeproof.solver.ledger import Entry
from shapeproof.solver.proofs.certificate import DIGEST, Subject, write_certificate
from shapeproof.solver.proofs.recheck import installed_solvers, recheck

SPEC = b"""\
[dims.n]
min = 1
max = 0x40
multiple_of = 2

[models.net]
target = "nets:Net"
relations = ["n != 6", "n*2 <= 100"]
branches = "split"
timeout = 60

[models.net.inputs]
x = { dtype = "float32", dims = [
    "2*n + 1", 4] }
"""
LOCATION = SourceLocation("net.py", 3, "x.view(-1)")
REPORT = Report(
    "refuted",
    (Diagnostic("divides", "no", "error", "net.py", 3, (Note("a", "b", LOCATION),), {"n": 1}, (Help("do", "so"),)),),
    (Decision(parse_formula("n % 2 == 0"), Kind.BRANCH, outcome=True, where=LOCATION),),
    ("n >= 1",),
    ("note",),
    RegionMap((parse_formula("n <= 3"),), (parse_formula("n >= 1"),), (), {"n": "x.shape[0]"}),
    {"questions": 1},
    {"x": ["n", "4"]},
    {"z3": 0},
    (Bound("nonzero", "i64", ("<=25", "2"), (25, 2)),),
    1000,
)
CONTRACT = Accepted({"x": ["n", "4"]}, ("x.shape[0] >= 1",))
BOXED = Entries(("a",), (1,), is_object=True, kind="nets.Box ['a']")
SHIPPED = Contract(
    (
        TensorInput("x", "x", "float32", "cpu", "strided", (parse_term("n"), parse_term("2*m + 1"))),
        ConstantInput("box.a", "box_a", 0.5),
    ),
    Structure((Items(list, (0,)),), {"box": BOXED}, ("x",), {"x": Items(list, (0,)), "box": BOXED}),
    (parse_formula("n >= 1"),),
    frozenset(),
    {"n": "x[0].shape[0]"},
    ("what y is",),
)
LOCK = {"format": 2, "models": {"net": {"status": "proved", "contract": to_data(SHIPPED)}}}
TOKENS = [
    b"9" * 5000, b"0x" + b"f" * 5000, b"[" * 20000, b'{"a":' * 20000, b"(" * 3000, b"-" * 3000 + b"1", b"1e999", b"NaN",
    b"\\ud800", b"\x00", b"\x1b[31m", b"\xff", b"null", b"true", b"-1", b"[]", b"{}", b'"', b"\n", b"certain",
    b"2**2**99", b"n" * 3000, b"\n::error::x\n", b"(check-sat)", b"(reset)", b"1 % 0 == 0", b"1979-05-27",
]  # fmt: skip
"""What a reader may trip over."""


@st.composite
def changes(draw):
    """How a content is changed, as places in thousandths: pieces go, come or change."""
    kinds = st.sampled_from(["cut", "delete", "byte", "token", "token", "token", "instead", "instead", "twice"])
    step = st.tuples(kinds, st.integers(0, 999), st.integers(0, 255), st.sampled_from(TOKENS))
    return draw(st.lists(step, min_size=1, max_size=3))


def changed(content, steps):
    for kind, place, number, token in steps:
        at = len(content) * place // 1000
        if kind == "cut":
            content = content[:at]
        elif kind == "delete":
            content = content[:at] + content[at + number :]
        elif kind == "byte":
            content = content[:at] + bytes([number]) + content[at + 1 :]
        elif kind == "token":
            content = content[:at] + token + content[at:]
        elif kind == "instead":  # of a word
            words = content.split(b" ")
            words[len(words) * place // 1000] = token
            content = b" ".join(words)
        else:
            content = content[: at + number] + content[at:]
    return content


@contextlib.contextmanager
def at_most_a_sentence():
    try:
        yield
    except UsageError as error:
        text = str(error)
        assert text
        assert len(text) < 1000
        assert "Traceback" not in text


def fuzzed(examples):
    return lambda test: settings(
        max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )(given(changes())(test))


@fuzzed(80)
@example([("instead", 300, 0, b"9" * 5000)])
@example([("instead", 300, 0, b"0x" + b"f" * 5000)])
@example([("instead", 990, 0, b"[" * 20000)])
def test_a_spec(tmp_path, steps):
    (tmp_path / "shapeproof.toml").write_bytes(changed(SPEC, steps))
    with at_most_a_sentence():
        load_spec(tmp_path / "shapeproof.toml")


@fuzzed(80)
def test_a_lock(tmp_path, steps):
    (tmp_path / NAME).write_bytes(changed(json.dumps(LOCK, indent=1).encode(), steps))
    with at_most_a_sentence():
        for each in read_lock(tmp_path).values():
            assert each.contract is None or isinstance(lost(each.contract, SHIPPED), Lost | Undecided | None)


@fuzzed(80)
@example([("instead", 50, 0, b"[" * 20000)])
def test_a_report(tmp_path, steps):
    REPORT.save(tmp_path / "report.json")
    (tmp_path / "report.json").write_bytes(changed((tmp_path / "report.json").read_bytes(), steps))
    with at_most_a_sentence():
        report = load_report(tmp_path / "report.json")
        assert report.status in {"proved", "refuted", "undecided", "vacuous"}
        assert str(report)


def test_a_report_is_read_as_it_was_written(tmp_path):
    REPORT.save(tmp_path / "report.json")
    assert load_report(tmp_path / "report.json") == REPORT


@pytest.mark.quick
@pytest.mark.parametrize("status", ["", "certain", "Proved", None, 1, ["proved"]])
def test_a_status_that_there_is_not(tmp_path, status):
    REPORT.save(tmp_path / "report.json")
    saved = json.loads((tmp_path / "report.json").read_bytes()) | {"status": status}
    (tmp_path / "report.json").write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(UsageError, match=r"report\.json is not a saved report$"):
        load_report(tmp_path / "report.json")
    for given_status in (status, "refuted"):
        locked = LOCK["models"]["net"] | {"status": given_status}
        (tmp_path / NAME).write_text(json.dumps(LOCK | {"models": {"net": locked}}), encoding="utf-8")
        with pytest.raises(
            UsageError, match=r"no lock file of this version \(at models\.net\.status\): run `shapeproof lock`"
        ):
            read_lock(tmp_path)


def certificate(path):
    entry = Entry(parse_formula("n // 4 >= 2"), Facts([parse_formula("n >= 8")]).history, Proved(Evidence("facts")))
    write_certificate(Subject([entry], about=["verdict of the run: proved"]), path)
    return path.read_bytes()


@pytest.mark.thorough
@fuzzed(25)
def test_a_certificate(tmp_path, steps):
    """As it was damaged, and with a digest that fits."""
    path = tmp_path / "proof.smt2"
    content = certificate(path)
    z3 = {"z3": installed_solvers()["z3"]}
    path.write_bytes(changed(content, steps))
    with at_most_a_sentence():
        recheck(path, z3)
        assert path.read_bytes() == content  # else it is noticed
    title, _, body = content.split(b"\n", 2)
    with contextlib.suppress(UnicodeDecodeError):
        body = changed(body, steps)
        path.write_bytes(b"\n".join([title, f"{DIGEST}{sha256(body.decode())}".encode(), body]))
        with at_most_a_sentence():
            recheck(path, z3)


@fuzzed(50)
def test_an_entry_of_the_cache(tmp_path, steps):
    (tmp_path / "net.py").write_text("1\n", encoding="utf-8")
    job = Job(root=str(tmp_path), target="net:Net")
    sources = {f"{tmp_path}/net.py": digest(f"{tmp_path}/net.py")}
    result = Result("refuted", "text", REPORT.diagnostics, CONTRACT)
    remember(job, Answer(result, sources))
    for path in (tmp_path / FOLDER).iterdir():
        content = path.read_bytes()
        path.write_bytes(changed(content, steps))
        assert recalled(job, frozenset(), digest) in (None, result)
        path.write_bytes(content)
    assert recalled(job, frozenset(), digest) == result


@pytest.mark.parametrize("read", [load_spec, load_report, recheck])
def test_a_file_without_an_end_is_one_sentence(tmp_path, read, monkeypatch):
    assert MOST >= 2**20
    monkeypatch.setattr("shapeproof.files.MOST", 2**16)
    (tmp_path / "endless").symlink_to("/dev/zero")
    with pytest.raises(
        UsageError, match=r"endless (cannot be read: File too large|is not a saved report: it is too long)"
    ):
        read(tmp_path / "endless")
