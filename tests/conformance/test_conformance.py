"""The sandbox's API server responds as Kubernetes does, except for the listed differences."""

from pathlib import Path
from typing import Any, Final

import pytest

from conformance.cases import GROUPS
from conformance.dsl import Case
from conformance.hooks import SANDBOX_HOOKS
from conformance.known_differences import (
    DIFFERENCES,
    Difference,
    MinorsDiffer,
    covered,
    documented,
    explained,
    may_follow_either,
)
from conformance.known_differences import MINORS as MINORS_DIFFER
from conformance.normalising import differences, differences_from_all, normalised
from conformance.recordings import MINORS, Conversation, Recordings
from conformance.talking import Compact, talk
from pykruise.kube.http.transport import HttpTransport
from pykruise.sandbox.local import LocalTransport
from testbed.control_plane import ControlPlane

_CASES: Final = [(group, case) for group, cases in GROUPS.items() for case in cases]
_each_case = pytest.mark.parametrize(
    ("group", "case"), [pytest.param(group, case, id=f"{group}-{case.name}") for group, case in _CASES]
)
_SANDBOX_PAGE: Final = Path(__file__).parents[2] / "docs" / "sandbox.md"


@pytest.mark.parametrize("minor", MINORS)
@_each_case
async def test_the_sandbox_answers_as_kubernetes_does(
    group: str, case: Case, minor: str, sandbox: LocalTransport, recordings: Recordings, forgetting: Compact
) -> None:
    # given what real API servers answered
    wanted = _recorded(recordings, group, case)
    # when the sandbox of a minor gets the same requests
    result = normalised(case, await talk(case, sandbox, SANDBOX_HOOKS, compact=forgetting))
    # then it responds as its minor, or as either minor where this is allowed, except for listed differences
    assert _surprises(case, wanted, result, minor) == ""


@pytest.mark.real
@pytest.mark.real_time  # sockets
@_each_case
async def test_a_real_api_server_answers_as_recorded(
    group: str,
    case: Case,
    plane: ControlPlane,
    real: HttpTransport,
    hooks: dict[str, str],
    recordings: Recordings,
    recorder: dict[tuple[str, str], dict[str, Conversation]] | None,
) -> None:
    # given what was recorded of this minor
    wanted = recordings.get(plane.kubernetes, group, case.title)
    # when the case is repeated
    result = normalised(case, await talk(case, real, hooks, compact=plane.compact))
    # then the responses are the same; with --record they are recorded instead
    if recorder is not None:
        recorder.setdefault((plane.kubernetes, group), {})[case.title] = result
        return
    assert wanted is not None, "never recorded: run with --record"
    assert _shown(case, wanted, result) == ""


@_each_case
def test_the_minors_differ_only_where_it_is_noted(group: str, case: Case, recordings: Recordings) -> None:
    # given what both minors answered
    newest, oldest = _recorded(recordings, group, case)
    # when they are compared
    unlike = [
        f"step {number}: {path}"
        for number, (entry, other) in enumerate(zip(newest, oldest, strict=True), start=1)
        for path, *_ in differences(entry, other)
        if not explained(case.title, path)
    ]
    # then all differences are listed
    assert unlike == []


@pytest.mark.parametrize("noted", MINORS_DIFFER, ids=lambda noted: noted.what)
def test_every_note_about_the_minors_is_true(noted: MinorsDiffer, recordings: Recordings) -> None:
    assert any(
        noted.covers(case.title, path)
        for group, case in _CASES
        for value, other in zip(*_recorded(recordings, group, case), strict=True)
        for path, *_ in differences(value, other)
    )


def test_the_conformance_cases_are_at_least_400_pairs_with_unique_names() -> None:
    titles = [case.title for _, case in _CASES]
    namespaces = [case.namespace for _, case in _CASES]
    assert len(set(titles)) == len(titles)
    assert len(set(namespaces)) == len(namespaces), sorted({n for n in namespaces if namespaces.count(n) > 1})
    assert sum(len(case.steps) for _, case in _CASES) >= 400


def test_every_listed_difference_refers_to_an_existing_case() -> None:
    steps = {case.title: len(case.steps) for _, case in _CASES}
    for each in DIFFERENCES:
        assert 1 <= each.step <= steps[each.case], each


def test_the_page_about_the_sandbox_lists_the_differences() -> None:
    text = _SANDBOX_PAGE.read_text()
    shown = text.partition("<!-- differences -->\n")[2].partition("<!-- end of differences -->")[0]
    assert shown == documented()


def test_nothing_is_recorded_of_removed_cases() -> None:
    folder = Path(__file__).parent / "recorded"
    assert {path.stem for path in folder.glob("*/*.json")} == set(GROUPS)


def _recorded(recordings: Recordings, group: str, case: Case) -> list[Conversation]:
    """The responses of each minor, the newest minor first."""
    result = [recordings.get(minor, group, case.title) for minor in MINORS]
    known = [answers for answers in result if answers is not None]
    assert len(known) == len(result), "not recorded of all minors: run with --cluster=real --record"
    return known


def _surprises(case: Case, wanted: list[Conversation], surprises: Conversation, minor: str) -> str:
    """A description of each unlisted difference, and of each listed one that does not occur; empty: none."""
    lines: list[str] = []
    by_step = zip(case.steps, zip(*wanted, strict=True), surprises, strict=True)
    for number, (step, each_minors, answer) in enumerate(by_step, start=1):
        known = covered(case.title, number, minor)
        seen = list(differences_from_all(each_minors, answer))
        expected = each_minors[MINORS.index(minor)]
        shown = {path for path, *_ in seen}
        seen += [
            item
            for item in differences(expected, answer)
            if item[0] not in shown and not may_follow_either(case.title, item[0])
        ]
        lines += _lines(
            number, step, [item for item in seen if not any(listed.covers(item[0]) for listed in known)]
        )
        for listed in known:
            gone = _gone(listed, [path for path, *_ in seen])
            if gone:
                lines.append(f"step {number} ({step}) is listed but does not differ at {gone}")
    return "\n".join(lines)


def _gone(listed: Difference, seen: list[str]) -> str:
    """The places of a listed difference at which nothing differs."""
    if not listed.at:
        return "" if seen else "any place"
    return ", ".join(
        at for at in listed.at if not any(path == at or path.startswith(f"{at}.") for path in seen)
    )


def _shown(case: Case, wanted: Conversation, value: Conversation) -> str:
    """A description of all differences."""
    lines: list[str] = []
    for number, (step, entry, other) in enumerate(zip(case.steps, wanted, value, strict=True), start=1):
        lines += _lines(number, step, list(differences(entry, other)))
    return "\n".join(lines)


def _lines(number: int, step: Any, seen: list[tuple[str, Any, Any]]) -> list[str]:
    lines = [f"step {number}: {step}"] if seen else []
    for path, wanted, result in seen:
        lines += [f"  {path}", f"    wanted: {wanted!r}", f"    found:  {result!r}"]
    return lines
