"""The sandbox's API server answers as Kubernetes does; where it does not, the list says so."""

from pathlib import Path
from typing import Any, Final

import pytest
from testbed.control_plane import ControlPlane

from conformance.cases import GROUPS
from conformance.dsl import Case
from conformance.known_differences import DIFFERENCES, MINORS_DIFFER, covered, documented
from conformance.normalising import differences, normalised
from conformance.recordings import MINORS, NEWEST, Conversation, Recordings
from conformance.talking import talk
from pykruise.kube.http import HttpTransport
from pykruise.sandbox.local import LocalTransport

_CASES: Final = [(group, case) for group, cases in GROUPS.items() for case in cases]
_each_case = pytest.mark.parametrize(
    ("group", "case"), [pytest.param(group, case, id=f"{group}-{case.name}") for group, case in _CASES]
)
_SANDBOX_PAGE: Final = Path(__file__).parents[2] / "docs" / "sandbox.md"


@_each_case
async def test_the_sandbox_answers_as_kubernetes_does(
    group: str, case: Case, sandbox: LocalTransport, recordings: Recordings
) -> None:
    # given what a real API server of the newest minor answered
    wanted = recordings.get(NEWEST, group, case.title)
    assert wanted is not None, "never recorded: run with --cluster=real --record"
    # when the sandbox is asked the same
    found = normalised(case, await talk(case, sandbox))
    # then the answers differ in nothing but what is listed, and in all of that
    assert _surprises(case, wanted, found) == ""


@pytest.mark.real
@pytest.mark.looptime(False)  # sockets
@_each_case
async def test_a_real_api_server_answers_as_recorded(
    group: str,
    case: Case,
    plane: ControlPlane,
    real: HttpTransport,
    recordings: Recordings,
    recorder: dict[tuple[str, str], dict[str, Conversation]] | None,
) -> None:
    # given what was recorded of this minor
    wanted = recordings.get(plane.kubernetes, group, case.title)
    # when it is asked again
    found = normalised(case, await talk(case, real))
    # then it says the same, or that is what is recorded now
    if recorder is not None:
        recorder.setdefault((plane.kubernetes, group), {})[case.title] = found
        return
    assert wanted is not None, "never recorded: run with --record"
    assert _shown(case, wanted, found) == ""


@_each_case
def test_the_minors_differ_only_where_it_is_noted(group: str, case: Case, recordings: Recordings) -> None:
    # given what both minors answered
    by_minor = [recordings.get(minor, group, case.title) for minor in MINORS]
    newest, oldest = (answers for answers in by_minor if answers is not None)
    # when they are compared
    unlike = [step for step, (one, other) in enumerate(zip(newest, oldest, strict=True), 1) if one != other]
    # then what is noted is what differs
    noted = [step for each in MINORS_DIFFER if each.case == case.title for step in each.steps]
    assert unlike == sorted(noted), _shown(case, newest, oldest)


def test_there_are_at_least_400_pairs_and_no_two_cases_share_a_name() -> None:
    titles = [case.title for _, case in _CASES]
    namespaces = [case.namespace for _, case in _CASES]
    assert len(set(titles)) == len(titles)
    assert len(set(namespaces)) == len(namespaces), sorted({n for n in namespaces if namespaces.count(n) > 1})
    assert sum(len(case.steps) for _, case in _CASES) >= 400


def test_every_listed_difference_is_about_a_case_that_exists() -> None:
    steps = {case.title: len(case.steps) for _, case in _CASES}
    for each in DIFFERENCES:
        assert 1 <= each.step <= steps[each.case], each
    for noted in MINORS_DIFFER:
        assert max(noted.steps) <= steps[noted.case], noted


def test_the_page_about_the_sandbox_lists_the_differences() -> None:
    text = _SANDBOX_PAGE.read_text()
    shown = text.partition("<!-- differences -->\n")[2].partition("<!-- end of differences -->")[0]
    assert shown == documented()


def test_nothing_is_recorded_of_cases_that_are_gone() -> None:
    folder = Path(__file__).parent / "recorded"
    assert {path.stem for path in folder.glob("*/*.json")} == set(GROUPS)


def _surprises(case: Case, wanted: Conversation, found: Conversation) -> str:
    """What is not as listed, for people; empty when all is."""
    lines: list[str] = []
    for number, (step, one, other) in enumerate(zip(case.steps, wanted, found, strict=True), start=1):
        known = covered(case.title, number)
        seen = list(differences(one, other))
        new = [each for each in seen if not any(listed.covers(each[0]) for listed in known)]
        lines += _lines(number, step, new)
        for listed in known:
            gone = [
                at
                for at in listed.at
                if not any(path == at or path.startswith(f"{at}.") for path, *_ in seen)
            ]
            if gone:
                lines.append(f"step {number} ({step}) is listed but does not differ at {', '.join(gone)}")
    return "\n".join(lines)


def _shown(case: Case, wanted: Conversation, found: Conversation) -> str:
    """All differences, for people."""
    lines: list[str] = []
    for number, (step, one, other) in enumerate(zip(case.steps, wanted, found, strict=True), start=1):
        lines += _lines(number, step, list(differences(one, other)))
    return "\n".join(lines)


def _lines(number: int, step: Any, seen: list[tuple[str, Any, Any]]) -> list[str]:
    lines = [f"step {number}: {step}"] if seen else []
    for path, wanted, found in seen:
        lines += [f"  {path}", f"    wanted: {wanted!r}", f"    found:  {found!r}"]
    return lines
