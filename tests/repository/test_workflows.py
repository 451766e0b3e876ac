"""The workflows run targets that the Makefile has, on what the package supports; the issue forms are forms."""

from __future__ import annotations

import itertools
import re

import pytest
import yaml

from shapeproof.export.shim.versions import SUPPORTED_TORCH
from tests.repository.project import HOME, PROJECT, ROOT, supported_pythons

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.search(r"(?m)^\.PHONY: (.*)$", MAKEFILE)[1].split())


def read_all(folder):
    """The YAML files of a folder, by name."""
    return {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / folder).glob("*.yml")}


WORKFLOWS = read_all(".github/workflows")
FORMS = read_all(".github/ISSUE_TEMPLATE")
CONTACTS = FORMS.pop("config.yml")
JOBS = {f"{name}-{job}": content for name, flow in WORKFLOWS.items() for job, content in flow["jobs"].items()}
PUBLISHES = "release.yml-publish"
FIELDS = {"textarea", "input", "dropdown", "checkboxes"}


def commands(job):
    """What a job runs, in words, with each point of its matrix filled in."""
    matrix = job.get("strategy", {}).get("matrix", {})
    for point in itertools.product(*matrix.values()):
        for step in job["steps"]:
            words = step.get("run", "")
            for name, value in zip(matrix, point, strict=True):
                words = words.replace(f"${{{{ matrix.{name} }}}}", value)
            if words:
                yield words.split()


def test_there_are_workflows_and_forms():
    assert {"tests.yml", "docs.yml", "release.yml"} <= set(WORKFLOWS)
    assert set(FORMS) == {"wrong-proof.yml", "refusal.yml", "crash.yml"}


@pytest.mark.parametrize("job", [job for job in JOBS if job != PUBLISHES])
def test_a_job_runs_targets_that_there_are(job):
    run = list(commands(JOBS[job]))
    assert run
    for make, target, *settings in run:
        assert (make, target in TARGETS) == ("make", True), target
        names = [setting.partition("=")[0] for setting in settings]
        assert all(re.search(rf"(?m)^{name} \?=", MAKEFILE) for name in names), names


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_only_read_and_says_when_it_runs(name):
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    assert WORKFLOWS[name][True]  # YAML 1.1 reads `on` so
    steps = [step for job in WORKFLOWS[name]["jobs"].values() for step in job["steps"]]
    known = r"actions/[\w-]+@v\d+|pypa/gh-action-pypi-publish@release/v\d+"
    assert all(re.fullmatch(known, step["uses"]) for step in steps if "uses" in step)
    assert all({"uses", "run"} & set(step) for step in steps)


def test_the_job_that_publishes_alone_has_an_identity_and_runs_nothing_of_ours():
    """Law: what PyPI trusts takes the archives of the job before it, from a tag, and has neither code nor token."""
    assert [name for name, job in JOBS.items() if "permissions" in job] == [PUBLISHES]
    job = JOBS[PUBLISHES]
    assert (job["permissions"], job["needs"], job["environment"]["name"]) == ({"id-token": "write"}, "archives", "pypi")
    assert [step["uses"].partition("@")[0] for step in job["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
    assert WORKFLOWS["release.yml"][True] == {"push": {"tags": ["v*"]}}
    assert all("secrets." not in str(flow) for flow in WORKFLOWS.values())


def test_the_suite_runs_with_each_release_of_torch_that_is_supported():
    releases = JOBS["tests.yml-torch"]["strategy"]["matrix"]["torch"]
    assert [release.rpartition(".")[0] for release in releases] == list(SUPPORTED_TORCH)


def test_code_is_read_and_rewritten_on_each_python_that_is_supported():
    assert JOBS["tests.yml-python"]["strategy"]["matrix"]["python"] == supported_pythons()


@pytest.mark.parametrize("job", [name for name, job in JOBS.items() if "os" in str(job.get("strategy"))])
def test_only_systems_that_are_claimed_can_fail_a_workflow(job):
    images = {"Operating System :: POSIX :: Linux": "ubuntu-latest", "Operating System :: MacOS": "macos-latest"}
    claimed = {images[each] for each in PROJECT["classifiers"] if each.startswith("Operating System")}
    tried = set(re.findall(r"'([\w-]+)'", JOBS[job].get("continue-on-error", "")))
    assert set(JOBS[job]["strategy"]["matrix"]["os"]) - tried == claimed


def test_what_a_change_must_pass_is_run_by_the_workflow_of_a_change():
    required = re.findall(r"(?m)^make ([\w-]+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    run = {target for job in WORKFLOWS["tests.yml"]["jobs"].values() for _, target, *_ in commands(job)}
    assert set(required) <= run


def test_every_target_is_explained_and_every_explained_one_there():
    assert set(re.findall(r'(?m)^\t@echo "make ([\w-]+) ', MAKEFILE)) | {"help"} == TARGETS
    assert all(re.search(rf"(?m)^{target}:", MAKEFILE) for target in TARGETS)


def test_the_tests_for_another_python_are_there():
    listed = re.search(r"(?m)^READ_CODE := ((?:.*\\\n)*.*)$", MAKEFILE)[1].replace("\\\n", " ").split()
    assert [name for name in listed if not (ROOT / "tests" / "export" / name).exists()] == []


@pytest.mark.parametrize("name", FORMS)
def test_a_form_asks_for_a_program_and_for_versions(name):
    form = FORMS[name]
    assert set(form) == {"name", "description", "title", "labels", "body"}
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert {each["type"] for each in fields} <= FIELDS
    ids = [each["id"] for each in fields]
    assert len(ids) == len(set(ids))
    assert {"program", "versions"} <= set(ids)
    assert all(each["attributes"]["label"] and each["validations"]["required"] is True for each in fields)


def test_the_links_beside_the_forms_lead_into_the_project():
    links = [link["url"] for link in CONTACTS["contact_links"]]
    assert all(link.startswith(f"{HOME}/") for link in links)
    paths = [link.removeprefix(f"{HOME}/blob/main/") for link in links if "/blob/main/" in link]
    assert all((ROOT / path).is_file() for path in paths)
