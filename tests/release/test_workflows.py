"""A person can run every step of the pipelines, because the steps call targets of the Makefile."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from support.sources import ROOT

WORKFLOWS: Final = sorted((ROOT / ".github/workflows").glob("*.yml"))
TARGETS: Final = set(re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))

ONLY_THERE: Final = (
    "sudo apt-get update",  # packages of the runner
    "echo ",  # outputs of a step
    "mkdir upload && cp ",
    "xargs --max-args=1 cosign sign",  # with the identity of the pipeline
    "for name in manager daemon dashboard; do",
    "digest=$(docker buildx imagetools inspect",
    "gh release create ",
)
"""Beginnings of all other steps, which make sense only in the pipeline."""


def loaded(path: Path) -> Any:
    result = yaml.safe_load(path.read_text())
    result["on"] = result.pop(True, None) or result["on"]  # YAML 1.1 takes the word for a boolean
    return result


def steps(path: Path) -> list[Any]:
    return [step for job in loaded(path)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_step_is_an_action_or_a_target_of_the_makefile(path: Path) -> None:
    others = []
    for step in steps(path):
        command = step.get("run", "").removeprefix("sudo --preserve-env=PATH,LOCKED,PYKRUISE_REQUIRE_NODES ")
        if not command or command.strip().startswith(ONLY_THERE):
            continue
        target = re.match(r"make ([\w-]+)", command)
        if target is None or target[1] not in TARGETS:
            others.append(command)
    assert others == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_no_workflow_job_may_write_without_declared_permissions(path: Path) -> None:
    workflow = loaded(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    checkouts = [step for step in steps(path) if step.get("uses", "").startswith("actions/checkout@")]
    assert all(checkout["with"]["persist-credentials"] is False for checkout in checkouts)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_no_command_is_built_of_what_others_write(path: Path) -> None:
    """Other people choose branch names and titles, so these values reach a shell only as variables."""
    assert [step["run"] for step in steps(path) if "${{" in step.get("run", "")] == []


def test_the_jobs_are_those_of_the_test_command() -> None:
    """`.ci/run` runs `make test`; the pipeline runs its parts in parallel."""
    text = (ROOT / "Makefile").read_text()
    recipe = re.findall(r"^test: .*\n((?:\t.*\n)+)", text, re.MULTILINE)[0]
    parts = {word for line in recipe.splitlines() for word in line.split() if word in TARGETS}
    called = {
        match[1]
        for step in steps(ROOT / ".github/workflows/ci.yml")
        if (match := re.search(r"\bmake ([\w-]+)", step.get("run", "")))
    }
    assert parts == {"lint", "unit", "real-in-brief", "nodes-and-switch-over"}
    assert parts <= called
