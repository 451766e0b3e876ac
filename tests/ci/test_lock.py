"""The lock file, and what `shapeproof diff` says where a model accepts less than is locked."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
import sarif_pydantic

from shapeproof.ci.jobs import Accepted, Outcome, Result, checks_of
from shapeproof.ci.locked.lock import NAME, locked, read_lock, write_lock
from shapeproof.ci.locked.narrowing import narrowing
from shapeproof.ci.render.narrowings import DiffFormat, render_diff
from shapeproof.ci.specs.spec import load_spec
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.constraints.syntax.text import parse_formula, parse_term
from shapeproof.contract import Contract
from shapeproof.contract.inputs import Structure, TensorInput
from shapeproof.files import write_whole
from tests.documents import without_pages_and_version
from tests.export.report.page.test_html import in_one_line, parsed

SPEC = """\
[dims.n]
min = 1
max = 64
multiple_of = 2

[models.net]
target = "nets:Net"
relations = ["n != 6"]
branches = "split"

[models.net.inputs]
x = { dtype = "float32", dims = [
    "n", 4] }
"""
DOMAIN = ("x.shape[0] >= 1", "x.shape[0] <= 64", "x.shape[0] % 2 == 0", "x.shape[0] != 6")


def accepts(*inputs, domain):
    """What a program accepts, with its contract; the domain is over the dim `n`."""
    formulas = tuple(parse_formula(text.replace("x.shape[0]", "n")) for text in domain)
    arguments = {each.name: index for index, each in enumerate(inputs)}
    structure = Structure((), arguments, (), arguments)
    shipped = Contract(inputs, structure, formulas, frozenset(formulas), {"n": "x.shape[0]"})
    return Accepted(domain=tuple(domain), shipped=shipped)


def tensor(name, *sizes, dtype="float32"):
    return TensorInput(name, name, dtype, "cpu", "strided", tuple(map(parse_term, sizes)))


X = tensor("x", "n", "4")
PROVED = Result("proved", "proved", contract=accepts(X, domain=DOMAIN))


@pytest.fixture
def outcome(tmp_path):
    """An outcome of the model, after an edit of the spec."""

    def make(result=PROVED, **edits):
        text = SPEC
        for old, new in edits.get("edits", {}).items():
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "shapeproof.toml"
        path.write_text(text, encoding="utf-8")
        check = list(checks_of(load_spec(path)))[-1]
        return Outcome(check, result)

    return make


def proved(*domain, sizes=("n", "4"), notes=()):
    return Result("proved", "proved", contract=accepts(tensor("x", *sizes), domain=domain), notes=notes)


def test_a_lock_is_read_as_it_was_written(tmp_path, outcome):
    write_lock(tmp_path, [outcome()])
    assert read_lock(tmp_path) == {"net": locked(outcome())}
    assert narrowing(read_lock(tmp_path)["net"], outcome()) is None


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path):
    (tmp_path / NAME).write_text("before", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / NAME, "x" * 100_000 + "\udc80")
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [(NAME, "before")]
    with pytest.raises(UsageError, match=r"absent/shapeproof.lock cannot be written: No such file or directory$"):
        write_lock(tmp_path / "absent", [])


def test_two_models_of_one_name_are_not_locked_as_one(tmp_path, outcome):
    with pytest.raises(UsageError, match=r"have a model `net`; one lock file cannot hold both$"):
        write_lock(tmp_path, [outcome(), outcome()])
    assert not (tmp_path / NAME).exists()


def test_a_lock_that_is_none_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match=r"shapeproof.lock cannot be read; `shapeproof lock` writes it$"):
        read_lock(tmp_path)
    (tmp_path / NAME).write_text('{"format": 3, "models": {}}', encoding="utf-8")
    with pytest.raises(
        UsageError, match=r"lock is no lock file of this version \(at format\): run `shapeproof lock` anew$"
    ):
        read_lock(tmp_path)


def test_a_lock_of_another_form_asks_to_lock_anew(tmp_path, outcome):
    old = {"status": "proved", "dtypes": {"x": "float32"}, "contract": {"inputs": {"x": ["n", "4"]}, "domain": []}}
    (tmp_path / NAME).write_text(json.dumps({"format": 1, "models": {"net": old}}), encoding="utf-8")
    with pytest.raises(UsageError, match=r"shapeproof.lock is no lock file .*: run `shapeproof lock` anew$"):
        read_lock(tmp_path)
    write_lock(tmp_path, [outcome()])
    text = (tmp_path / NAME).read_text(encoding="utf-8")
    for damaged in (text.replace('"n >= 1"', '"n >="'), text.replace('"tensor"', '"tense"'), "[" * 100_000, text[:-9]):
        (tmp_path / NAME).write_text(damaged, encoding="utf-8")
        with pytest.raises(UsageError, match=r"shapeproof.lock is no lock file .*: run `shapeproof lock` anew$"):
            read_lock(tmp_path)


def test_a_lock_is_read_by_people(tmp_path, outcome, golden):
    """One thing a line, in a stable order: it is committed, and reviewed as a diff."""
    write_lock(tmp_path, [outcome()])
    golden.check("ci/lock.json", (tmp_path / NAME).read_text(encoding="utf-8"))


def test_a_model_without_a_program_has_nothing_to_lose(tmp_path, outcome):
    nothing = Result("undecided", "undecided")
    write_lock(tmp_path, [outcome(nothing)])
    before = read_lock(tmp_path)["net"]
    assert (before.status, before.contract) == ("undecided", None)
    assert narrowing(before, outcome()) is None
    assert narrowing(before, outcome(nothing)) is None
    assert narrowing(locked(outcome()), outcome(nothing)).message == "it is undecided now"


NARROWER = {
    "max": (
        {"max = 64": "max = 32"},
        proved("x.shape[0] >= 1", "x.shape[0] <= 32", *DOMAIN[2:]),
        "x.shape[0] = 34 is no longer accepted: x.shape[0] <= 32 is required",
        3,
    ),
    "min": (
        {"min = 1": "min = 3"},
        proved("x.shape[0] >= 3", *DOMAIN[1:]),
        "x.shape[0] = 2 is no longer accepted: x.shape[0] >= 3 is required",
        2,
    ),
    "multiple": (
        {"multiple_of = 2": "multiple_of = 4"},
        proved(*DOMAIN[:2], "x.shape[0] % 4 == 0"),
        "x.shape[0] = 2 is no longer accepted: x.shape[0] % 4 == 0 is required",
        4,
    ),
    "relation": (
        {"n != 6": "n != 8"},
        proved(*DOMAIN[:3], "x.shape[0] != 8"),
        "x.shape[0] = 8 is no longer accepted: x.shape[0] != 8 is required",
        8,
    ),
    "a size": (
        {'"n", 4': '"n", 5'},
        proved(*DOMAIN, sizes=("n", "5")),
        "x.shape[0] = 2 is no longer accepted: x.shape[1] == 5 is required",
        12,
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", NARROWER)
def test_the_line_of_the_spec_that_narrowed_it(outcome, case):
    edits, result, message, line = NARROWER[case]
    before = locked(outcome())
    found = narrowing(before, outcome(result, edits=edits))
    assert (found.message, Path(found.file).name, found.line) == (message, "shapeproof.toml", line)


def test_the_line_of_the_model_that_narrowed_it(outcome):
    """Inferred: the spec is as it was."""
    note = "inferred and enforced at run time: x.shape[0] % 4 == 0, asked for at nets.py:7"
    before = locked(outcome())
    found = narrowing(before, outcome(proved(*DOMAIN, "x.shape[0] % 4 == 0", notes=(note,))))
    assert (Path(found.file).name, found.line) == ("nets.py", 7)


def test_what_is_wider_is_no_narrowing(outcome):
    before = locked(outcome())
    assert narrowing(before, outcome(proved("x.shape[0] >= 0"), edits={"min = 1": "min = 0"})) is None


def test_other_inputs_are_a_narrowing(outcome):
    before = locked(outcome())
    for inputs, message in [
        ([X, tensor("y", "n")], "it takes (x=, y=) as arguments, not (x=)"),
        ([tensor("x", "n")], "it takes 1 as x.ndim, not 2"),
        ([tensor("x", "n", "4", dtype="float16")], "it takes float16 as x.dtype, not float32"),
    ]:
        other = dataclasses.replace(PROVED, contract=accepts(*inputs, domain=DOMAIN))
        found = narrowing(before, outcome(other))
        assert (found.message, found.id, found.witness) == (message, "narrowed", None)


def test_a_new_check_on_data_may_refuse(outcome):
    checking = PROVED.contract.shipped.with_unchecked("k >= 2, which the program checks on its data")
    after = dataclasses.replace(PROVED, contract=dataclasses.replace(PROVED.contract, shipped=checking))
    found = narrowing(locked(outcome()), outcome(after))
    assert (found.message, found.id) == (
        "it may refuse what it accepted: k >= 2, which the program checks on its data (this is new)",
        "undecided",
    )
    assert narrowing(locked(outcome(after)), outcome()) is None


def test_a_refutation_is_a_narrowing_and_no_verdict_is_not_known(outcome):
    before = locked(outcome())
    diagnostic = Diagnostic("divides", "must be even", file="nets.py", line=7, witness={"x.shape[0]": 1})
    found = narrowing(before, outcome(Result("refuted", "", (diagnostic,))))
    assert (found.message, str(found.file), found.line, found.id) == (
        "it is refuted now, at x.shape[0] = 1: must be even",
        "nets.py",
        7,
        "narrowed",
    )
    assert narrowing(before, outcome(Result("vacuous", ""))).id == "narrowed"
    assert narrowing(before, outcome(Result(None, "crashed"))).id == "no-verdict"


def test_what_cannot_be_decided_is_no_pass(outcome):
    """Where the new demand is not defined, nothing is known of what it accepts."""
    odd = proved(*DOMAIN, "64//(x.shape[0] - 6) != 1")
    assert narrowing(locked(outcome()), outcome(odd)) is not None


NETS = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return x.view(-1, 2, 4) * 2 if x.shape[0] > 32 else x.view(-1, 2, 4)
"""
PROGRAM = "from shapeproof.ci.cli import main; main()"


def run(folder, *command):
    program = [sys.executable, "-c", PROGRAM, *command]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done


COMPARED = [
    ("kept", None),
    (
        "net",
        Diagnostic("narrowed", "x.shape[0] = 18 is lost", file="shapeproof.toml", line=3, witness={"x.shape[0]": 18}),
    ),
    ("open", Diagnostic("undecided", "it could not be decided", file="shapeproof.toml", line=6)),
]


@pytest.mark.quick
@pytest.mark.parametrize("form", [form for form in DiffFormat if form is not DiffFormat.HTML])
def test_each_form_of_a_comparison(tmp_path, monkeypatch, golden, form):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (tmp_path / "shapeproof.toml").write_text(SPEC, encoding="utf-8")
    text = render_diff(COMPARED, ["new"], form)
    golden.check(f"ci/diff.{form}.txt", without_pages_and_version(text))


def test_the_page_of_a_comparison_has_both_contracts():
    before = accepts(X, domain=DOMAIN).shipped
    after = accepts(X, domain=[*DOMAIN[:1], "x.shape[0] <= 16", *DOMAIN[2:]]).shipped
    contracts = [(before, before), (before, after), (before, None)]
    page = parsed(render_diff(COMPARED, ["new"], DiffFormat.HTML, contracts))
    kept, net, gone = (in_one_line(page.within[f"m{number}"]) for number in (1, 2, 3))
    assert kept.startswith("same kept lockednow inputs")
    assert "- " not in kept
    assert net.startswith("narrowed net x.shape[0] = 18 is lost at shapeproof.toml:3 lockednow")
    assert "- x.shape[0] <= 64+ x.shape[0] <= 16" in net
    assert net.count("- ") == net.count("+ ") == 1
    assert gone.startswith("undecided open it could not be decided")
    assert gone.count("- ") == len(str(before).splitlines())
    assert in_one_line(page.within["m4"]) == "not locked new shapeproof lock adds it"
    for form in DiffFormat:
        if form is not DiffFormat.HTML:
            assert render_diff(COMPARED, ["new"], form, contracts) == render_diff(COMPARED, ["new"], form)


def test_a_comparison_is_read_by_others():
    log = sarif_pydantic.Sarif.model_validate_json(render_diff(COMPARED, [], DiffFormat.SARIF))
    assert [(result.rule_id, result.level.value) for result in log.runs[0].results] == [
        ("narrowed", "error"),
        ("undecided", "error"),
    ]
    document = json.loads(render_diff(COMPARED, ["new"], DiffFormat.JSON))
    assert (document["passed"], document["not_locked"]) == (False, ["new"])
    assert document["models"][1]["sizes"] == {"x.shape[0]": 18}


def test_nothing_is_locked_unless_all_passes(tmp_path, outcome):
    (tmp_path / "nets.py").write_text("", encoding="utf-8")
    outcome()
    done = run(tmp_path, "lock")
    assert done.returncode == 2
    assert done.stderr.endswith("nothing is locked: not every verdict is one that the spec accepts\n")
    assert not (tmp_path / NAME).exists()


@pytest.mark.thorough
def test_from_lock_to_diff(tmp_path, outcome):
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    outcome()
    assert run(tmp_path, "diff").returncode == 2  # no lock yet
    assert run(tmp_path, "lock").returncode == 0
    before = read_lock(tmp_path)["net"]
    assert before.regions == ("x.shape[0] <= 32", "x.shape[0] >= 33")
    assert [bool(before.contract.accepts(x=(size, 4))) for size in (2, 6, 7, 64, 66)] == [
        True,
        False,
        False,
        True,
        False,
    ]
    write_lock(tmp_path, [outcome(), outcome(edits={"models.net": "models.old"})])
    outcome(edits={"max = 64": "max = 16", "[models.net]": '[models.new]\ntarget = "nets:absent"\n\n[models.net]'})
    done = run(tmp_path, "diff")
    assert (done.returncode, done.stdout.splitlines()) == (
        1,
        [
            "narrowed: net: x.shape[0] = 18 is no longer accepted: x.shape[0] <= 16 is required",
            "  --> shapeproof.toml:3   max = 16",
            "narrowed: old: it is locked, but in no spec any more",
            "  --> shapeproof.lock:1   {",
            "note: new is not locked; `shapeproof lock` adds it",
            "0 accept all that they did, 2 do not",
        ],
    )
    done = run(tmp_path, "diff", "--cached", "--model", "ne[t]")
    assert (done.returncode, done.stdout.splitlines()[::2]) == (
        1,
        [
            "narrowed: net: x.shape[0] = 18 is no longer accepted: x.shape[0] <= 16 is required",
            "0 accept all that they did, 1 do not",
        ],
    )
    assert "no model is called 'ol*'" in run(tmp_path, "diff", "--model", "ol*").stderr


BUILT = """
import torch
from torch.export import Dim
class Net(torch.nn.Module):
    def forward(self, x):
        {check}
        return x * 2
def build():
    return Net(), (torch.ones(3, 2, dtype=torch.{dtype}),), {{}}, {{"x": {{0: Dim("n", max=8)}}}}
"""


@pytest.mark.thorough
def test_the_lock_of_a_target_that_builds_its_inputs_has_their_dtypes_and_checks(tmp_path):
    (tmp_path / "shapeproof.toml").write_text('[models.net]\ntarget = "nets:build"\n', encoding="utf-8")
    found = {}
    for command, dtype, check in [
        ("lock", "float32", ""),
        ("diff", "float32", "torch.relu(x)"),
        ("diff", "float64", ""),
        ("diff", "float32", "assert (x > 0).all()"),
    ]:
        (tmp_path / "nets.py").write_text(BUILT.format(dtype=dtype, check=check), encoding="utf-8")
        done = run(tmp_path, command)
        found[dtype, check, command] = done.returncode, done.stdout.partition(" (")[0].partition("\n")[0]
    assert list(found.values())[1:] == [
        (0, "1 accept all that they did, 0 do not"),
        (1, "narrowed: net: it takes float64 as x.dtype, not float32"),
        (3, "undecided: net: it may refuse what it accepted: data_1 == 1, which the program checks on its data"),
    ]
