"""Checks on data: what is suggested settles the question when it is pasted, and what stays speaks as the user did."""

from __future__ import annotations

import importlib.util
import itertools
import re
import textwrap

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check, constrain_range, export
from tests.agreement import agree

M = Dim("m", min=1, max=16)
ROWS = torch.tensor([1.0, 0, 2, 3, 0])
COUNTS = torch.tensor([3, 1, 2])
_numbers = itertools.count()


def load(folder, source):
    """The class `Model` of a source text, from a file of its own."""
    path = folder / f"model_{next(_numbers)}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Model()


def model_of(body, helpers=""):
    indented = textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    head = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x, n):\n"
    return f"{head}{indented}\n\n\n{textwrap.dedent(helpers)}"


def paste(source, help_):
    """The source with a suggested check before the line that it names; what it names is called so from there on."""
    line = int(re.search(r":(\d+)(?:, where .*)?; proved to settle the question", help_.proof)[1])
    lines = source.splitlines(keepends=True)
    for name, written in re.findall(r"where `(\w+)` then stands for `(.*?)`[,;]", help_.proof):
        lines[line - 1 :] = [each.replace(written, name) for each in lines[line - 1 :]]
    indent = re.match(r"\s*", lines[line - 1])[0]
    return "".join([*lines[: line - 1], f"{indent}{help_.text}\n", *lines[line - 1 :]])


def checked(folder, source, rows=M):
    return check(load(folder, source), (ROWS, COUNTS), dynamic_shapes={"x": {0: rows}, "n": None})


def where(help_):
    """The sizes at which some data pass a suggested check, as its proof says."""
    least = re.search(r"where x.shape\[0\] >= (\d+): no data pass it elsewhere$", help_.proof)
    return Dim("m", min=int(least[1]), max=16) if least else M


PROGRAMS = {
    "a number": """
        count = n[0].item()
        if count > 3:
            return x * 2
        return x
    """,
    "a count of rows": """
        kept = x.nonzero().squeeze(1)
        return x * 2 if kept.shape[0] > 3 else x[kept]
    """,
    "a count of rows that is enough": """
        kept = x.nonzero().squeeze(1)
        return x * 2 if kept.shape[0] > 1 else x[kept]
    """,
    "no rows": """
        kept = x[x > 1]
        if kept.numel() == 0:
            return x
        return kept.max()
    """,
    "a relation to a size": """
        count = n[0].item()
        return x * 2 if 2 * count < x.shape[0] else x
    """,
    "entries of a list": """
        counts = n.tolist()
        return x * 2 if counts[0] > counts[1] else x
    """,
    "a number that is computed": """
        rest = 10 - n[0].item()
        return x * 2 if rest >= 4 else x
    """,
    "two causes": """
        count, other = n[0].item(), n[1].item()
        if count > 2:
            x = x + 1
        if other > 2:
            x = x * 2
        return x
    """,
    "one cause for two questions": """
        count = n[0].item()
        if count > 2:
            x = x + 1
        if count > 1:
            x = x * 2
        return x
    """,
    "an alternative": """
        count = n[0].item()
        if count > 2:
            return x + 1
        elif count > 1:
            return x * 2
        return x
    """,
    "a statement of several lines": """
        count = n[0].item()
        return torch.where(
            x > 0,
            x * 2 if count > 2
            else x,
            x,
        )
    """,
    "a size of a result": """
        count = n[0].item()
        return x.new_zeros(count)
    """,
    "remainders": """
        count = n[0].item()
        if count % 4 == 3:
            return x * 2
        return x
    """,
    "rounds of a loop": """
        count, turn = n[0].item(), 0
        while turn < count:
            x, turn = x + 1, turn + 1
        return x
    """,
    "rounds of a loop over a number without a name": """
        turn = 0
        while turn < n[0].item():
            x, turn = x + 1, turn + 1
        return x
    """,
    "a range": """
        for turn in range(n[0].item()):
            x = x + turn
        return x
    """,
    "a number that nothing is known of, behind one that is known": """
        n = torch.where(n > 2, n, 0)
        total = (n // 2).clamp(-3, 3).sum().item()
        first = n[0].item()
        return x * 2 if first != 0 else x - total
    """,
    "an equation": """
        count = n[0].item()
        if count != 3:
            return x * 2
        return x
    """,
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_suggested_check_settles_the_question(tmp_path, name):
    source = model_of(PROGRAMS[name])
    report = checked(tmp_path, source)
    for _ in range(3):
        if report.status == "proved":
            break
        assert report.status == "refuted"
        assert {d.id for d in report.diagnostics} == {"data-dependent"}, str(report)
        (help_,) = report.diagnostics[0].help
        source = paste(source, help_)
        report = checked(tmp_path, source, where(help_))
    assert report.status == "proved", f"{source}\n{report}"
    # The example passes every check that was suggested.
    assert torch.equal(report.program.module()(ROWS, COUNTS), load(tmp_path, source)(ROWS, COUNTS))


@pytest.mark.thorough
def test_a_check_is_written_in_the_words_of_the_function_that_asks(tmp_path):
    source = model_of(
        "return scaled(x, n[0].item())",
        "def scaled(values, factor):\n    return values * 2 if factor > 1 else values\n",
    )
    (found,) = checked(tmp_path, source).diagnostics
    assert found.help[0].text == "torch._check(factor >= 2)"
    assert found.message.endswith("`factor >= 2`")
    assert checked(tmp_path, paste(source, found.help[0])).status == "proved"


def test_both_answers_are_shown_with_the_sizes_they_need(tmp_path):
    (found,) = checked(tmp_path, model_of(PROGRAMS["a count of rows"])).diagnostics
    notes = {note.label: note.text for note in found.notes}
    assert notes["true at"] == "x.shape[0] = 1, kept.shape[0] = 0"
    assert notes["false at"] == "x.shape[0] = 4, kept.shape[0] = 4"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("body", "help_"),
    [
        ("return x * 2 if n[0].item() > 3 else x", "n_item = n[0].item(); torch._check(n_item <= 3)"),
        ("return x * 2 if int(n[0]) > 2 else x", "n_item = int(n[0]); torch._check(n_item >= 3)"),
        (
            "return x * 2 if n[0].item() > n[1].item() else x",
            "n_item = n[0].item(); n_item1 = n[1].item(); torch._check(n_item1 < n_item)",
        ),
        ("if (x > 1).any():\n    return x * 2\nreturn x", "x_item = (x > 1).any().item(); torch._check(x_item)"),
        ("if n[1] > 1:\n    x = x * 2\nreturn x", "n_item = (n[1] > 1).item(); torch._check(torch.sym_not(n_item))"),
        ("if not n[0]:\n    x = x * 2\nreturn x", "n_item = n[0].bool().item(); torch._check(n_item)"),
        ("while n[0] > 9:\n    x = x * 2\nreturn x", "n_item = (n[0] > 9).item(); torch._check(torch.sym_not(n_item))"),
    ],
)
def test_a_number_without_a_name_is_given_one(tmp_path, body, help_):
    source = model_of(body)
    (found,) = checked(tmp_path, source).diagnostics
    assert [each.text for each in found.help] == [help_]
    assert any(note.label == "u0" for note in found.notes)
    settled = paste(source, found.help[0])
    assert checked(tmp_path, settled).status == "proved", settled
    assert torch.equal(load(tmp_path, settled)(ROWS, COUNTS), load(tmp_path, source)(ROWS, COUNTS))


def test_a_number_that_a_lambda_takes_from_data_is_found_by_its_line(tmp_path):
    (found,) = checked(tmp_path, model_of("return x * 2 if (lambda n: n.item())(n[0]) > 3 else x")).diagnostics
    assert found.help == ()
    (note,) = (note for note in found.notes if note.label == "u0")
    assert "return x * 2 if" in note.text


@pytest.mark.parametrize(
    ("body", "required"),
    [
        (PROGRAMS["a count of rows that is enough"], "kept.shape[0] >= 2"),
        (PROGRAMS["no rows"], "kept.shape[0] != 0"),
        ("rows = x.nonzero().shape[0]\nreturn x * (1.0 if rows > 1.5 else 2.0)", "rows >= 2"),
        ("if (x > 1).any():\n    return x * 2\nreturn x", "u0 == 1"),
    ],
)
def test_one_cause_is_one_diagnostic_at_the_branch(tmp_path, body, required):
    """What torch asks of the same number on its way is no cause of its own."""
    (found,) = checked(tmp_path, model_of(body)).diagnostics
    assert found.message.endswith(f"`{required}`")


def test_the_weakest_check_is_suggested(tmp_path):
    (found,) = checked(tmp_path, model_of(PROGRAMS["a number"])).diagnostics
    assert found.help[0].text == "torch._check(count <= 3)"


# ---------------------------------------------------------------------- what is checked


class Sliced(torch.nn.Module):
    def __init__(self, guard):
        super().__init__()
        self.guard = guard

    def forward(self, x, n):
        count = n.item()
        self.guard(count, x.shape[0])
        return x[:count]


def by_check(count, size):
    torch._check(count >= 0)
    torch._check(count <= size, lambda: f"only {size} rows, for any {count}")


def by_range(count, size):
    constrain_range(count, min=0, max=9)
    torch._check(count <= size, lambda: "must be at most the size")


def by_assert(count, size):
    assert count >= 0
    assert count <= size, "count must be within x"


def by_chained_assert(count, size):
    assert 0 <= count <= size, "count must be within x"


def by_torchs_assert(count, size):
    torch._assert(count >= 0, "negative")
    torch._assert(count <= size, "count must be within x")


def by_raise(count, size):
    if count < 0 or count > size:
        raise ValueError("count must be within x")


@pytest.mark.parametrize(
    ("guard", "sentence"),
    [
        (by_check, "rows, for any"),
        (by_range, "must be at most"),
        (by_assert, "count must be within x"),
        (by_chained_assert, "count must be within x"),
        (by_torchs_assert, "count must be within x"),
        (by_raise, "count must be within x"),
    ],
    ids=["torch._check", "constrain_range", "assert", "chained assert", "torch._assert", "raise"],
)
def test_a_check_stays_and_says_what_the_user_says(guard, sentence):
    program = export(Sliced(guard), (torch.ones(5), torch.tensor(2)), dynamic_shapes=({0: M}, None))
    assert program.report.status == "proved"
    # Torch words the assertions anew where it decomposes a program.
    for run, match in ((program.module(), sentence), (program.run_decompositions().module(), "")):
        for count in (0, 1, 5):
            assert torch.equal(run(torch.ones(5), torch.tensor(count)), torch.ones(count))
        for count in (-1, 6, 17, 100):
            with pytest.raises(RuntimeError, match=match if count > 0 else ""):
                run(torch.ones(5), torch.tensor(count))


@pytest.mark.thorough
def test_the_example_shows_the_way_past_a_raise():
    """Most numbers do not pass; that the example's do is not seen from its sizes."""

    class Model(torch.nn.Module):
        def forward(self, x, n):
            count = n.item()
            if count * count - 77 * count + 6 != -70:
                raise ValueError("no such count")
            return x * count

    report = check(Model(), (ROWS, torch.tensor(1)), dynamic_shapes=({0: M}, None))
    assert report.status == "proved", str(report)
    with pytest.raises(RuntimeError, match="no such count"):
        report.program.module()(ROWS, torch.tensor(2))


def test_a_check_that_holds_anyway_leaves_the_graph():
    class Model(torch.nn.Module):
        def forward(self, x):
            count = (x > 0).sum().item()
            torch._check(count >= 0)
            torch._check(count <= x.shape[0], lambda: "impossible")
            assert count < 17
            return x * count

    program = export(Model(), (ROWS,), dynamic_shapes=({0: M},))
    texts = [node.args[1] for node in program.graph.nodes if "_assert_scalar" in str(node.target)]
    assert all(text.startswith("input outside the declared domain") for text in texts)


def careful(x, n):
    count = n.item()
    torch._check(count >= 5)
    return x + count


def careless(x, n):
    return x - n.item()


class Branches(torch.nn.Module):
    """What one branch of torch.cond checks is asked for again where both have come together."""

    def __init__(self, *, asking):
        super().__init__()
        self.asking = asking

    def forward(self, x, n):
        y = torch.cond(x.sum() > 0, careful, careless, (x, n))
        count = n.item()
        return y * 2 if self.asking and count >= 5 else y * count


@pytest.mark.thorough
def test_a_check_in_one_branch_is_no_fact_elsewhere():
    report = check(Branches(asking=True), (torch.ones(5), torch.tensor(7)), dynamic_shapes=({0: M}, None))
    (found,) = report.diagnostics
    assert (report.status, found.id, found.help[0].text) == ("refuted", "data-dependent", "torch._check(count >= 5)")


@pytest.mark.thorough
def test_a_check_in_one_branch_is_made_in_that_branch_alone():
    model = Branches(asking=False)
    program = export(model, (torch.ones(5), torch.tensor(7)), dynamic_shapes=({0: M}, None))
    assert program.report.status == "proved"
    run = program.module()
    for count in (5, 7):
        assert torch.equal(run(torch.ones(3), torch.tensor(count)), torch.full((3,), (1.0 + count) * count))
    for count in (3, 7):  # eager does not get here: it compiles both branches, and trips over the check of the other
        assert torch.equal(run(-torch.ones(3), torch.tensor(count)), torch.full((3,), (-1.0 - count) * count))
    with pytest.raises(RuntimeError):
        run(torch.ones(3), torch.tensor(4))


def sum_of_some(x, n):  # noqa: ARG001 - torch.cond gives both branches the same
    return x[x > 0].sum()


def sum_of_first(x, n):
    return x[: n.item()].sum()


class Sums(torch.nn.Module):
    def forward(self, x, n):
        return torch.cond(x.sum() > 0, sum_of_some, sum_of_first, (x, n))


@pytest.mark.thorough
def test_branches_may_take_sizes_from_data():
    """What torch asserts of them in a branch follows from what operators promise."""
    report = check(Sums(), (torch.ones(5), torch.tensor(2)), dynamic_shapes=({0: M}, None))
    assert report.status == "proved", str(report)
    for size, low, count in ((1, -1.0, 0), (1, 1.0, 3), (5, -1.0, -2), (5, 0.1, 9), (16, -0.5, 4)):
        assert agree(Sums(), report.program.module(), (torch.rand(size) + low, torch.tensor(count)))


@pytest.mark.thorough
def test_a_size_on_which_branches_differ_is_that_of_one_of_them():
    class Model(torch.nn.Module):
        def forward(self, x):
            y = torch.cond(x.sum() > 0, lambda x: torch.cat([x, x]), lambda x: x.clone(), (x,))
            return y * 2 if y.shape[0] <= 2 * x.shape[0] else y

    report = check(Model(), (torch.ones(5),), dynamic_shapes=({0: M},))
    assert report.status == "proved"
    assert {bound.limits for bound in report.bounds} == {(32,)}
    for x in (torch.ones(3), -torch.ones(3)):
        assert agree(Model(), report.program.module(), (x,))


class OneSided(torch.nn.Module):
    def forward(self, x, n):
        count = n.item()
        if count > 3:
            torch._check(count > 4)
            return x * 2
        return x


@pytest.mark.parametrize("example", [2, 6])
def test_a_check_on_one_side_of_a_branch_settles_no_branch(example):
    """It is made after the branch, and only there."""
    report = check(OneSided(), (ROWS, torch.tensor(example)), dynamic_shapes=({0: M}, None))
    (found,) = report.diagnostics
    assert (report.status, found.id) == ("refuted", "data-dependent")
    assert found.help[0].text == ("torch._check(count <= 3)" if example == 2 else "torch._check(count >= 4)")


def test_a_check_after_a_branch_settles_it():
    """Eager raises on the other side, too, if later."""

    class Model(torch.nn.Module):
        def forward(self, x, n):
            count = n.item()
            y = x * 2 if count > 3 else x
            torch._check(count > 3)
            return y

    report = check(Model(), (ROWS, torch.tensor(6)), dynamic_shapes=({0: M}, None))
    assert report.status == "proved", str(report)
    for count in (3, 4):
        assert agree(Model(), report.program.module(), (ROWS, torch.tensor(count)))


class Selected(torch.nn.Module):
    def forward(self, x):
        return x[x > 0] * 2


def test_what_torch_checks_after_an_assumption_of_its_own_is_no_check_of_the_model():
    """Of one element at most one is selected: torch assumes that it is not none, and checks that it is one."""
    report = check(Selected(), (torch.ones(1),))
    assert report.status == "proved", str(report)
    for value in (1.0, -1.0):
        assert agree(Selected(), report.program.module(), (torch.full((1,), value),))


def test_a_number_that_means_something_else_is_no_size():
    """`expand(-1)` keeps the size."""

    class Model(torch.nn.Module):
        def forward(self, x, n):
            return x[:1].expand(n.item())

    (found,) = check(Model(), (ROWS, torch.tensor(3)), dynamic_shapes=({0: M}, None)).diagnostics
    assert found.message.endswith("`u0 != -1`")
