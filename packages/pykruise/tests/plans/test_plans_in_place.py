"""Cached progress of pods that update in place: always equal to the progress that is computed again."""

import json
from typing import Any

import msgspec
import pytest

from pykruise.kube.clock import Instant
from pykruise.plans import in_place
from pykruise.plans.in_place import Differences, InPlaceProgress, Recall, SeenInPlace
from pykruise.pods.in_place import InPlaceSettings, NotInPlace, Template, UpdateSpec
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.containers import ContainerFacts, ContainerStatusFacts
from pykruise.pods.view.names import RevisionHash
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.reasons import Reason

POD = PodView(namespace="default", name="web-a", uid="uid-a", resource_version=5)
WAITS = InPlaceProgress(waits="its in-place update is under way")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the pods whose progress was computed; all of them wait, and web-later only until 20."""
    names: list[str] = []

    def go_on(pod: PodView, *, now: Instant, settings: InPlaceSettings) -> InPlaceProgress:
        names.append(pod.name)
        if pod.name == "web-done":
            return InPlaceProgress(is_complete=True)
        return InPlaceProgress(waits=WAITS.waits, look_at=20.0) if pod.name == "web-later" else WAITS

    monkeypatch.setattr(in_place, "find_progress", go_on)
    return names


class Plans:
    """Plans for one owner, one after another: each begins with the cache of the last one."""

    def __init__(self) -> None:
        self.seen = SeenInPlace()

    def look(
        self, *pods: PodView, now: Instant = 10.0, settings: InPlaceSettings | None = None
    ) -> list[InPlaceProgress]:
        """One plan, which asks for the progress of these pods."""
        recall = Recall(self.seen)
        progresses = [
            recall.find_progress(pod, now=now, settings=settings or InPlaceSettings()) for pod in pods
        ]
        recall.forget_others()
        self.seen = recall.seen
        return progresses


def pod(name: str, *, version: int = 5) -> PodView:
    return PodView(namespace="default", name=name, uid=f"uid-{name}", resource_version=version)


def test_a_waiting_pod_is_evaluated_again_only_when_it_has_changed(asked: list[str]) -> None:
    # given
    plans = Plans()
    assert plans.look(POD) == plans.look(POD) == plans.look(POD) == [WAITS]
    assert asked == ["web-a"]
    # when there is a newer version of the pod
    plans.look(PodView(namespace="default", name="web-a", uid="uid-a", resource_version=6))
    # then
    assert asked == ["web-a", "web-a"]


def test_a_pod_that_waits_for_a_time_is_evaluated_again_at_that_time(asked: list[str]) -> None:
    # given
    plans, later = Plans(), pod("web-later")
    plans.look(later)
    plans.look(later, now=19.9)
    assert len(asked) == 1
    # when / then
    plans.look(later, now=20.0)
    assert len(asked) == 2


def test_changed_settings_require_a_new_comparison(asked: list[str]) -> None:
    plans = Plans()
    plans.look(POD)
    plans.look(POD, settings=InPlaceSettings(vertical_scaling=True))
    assert len(asked) == 2


def test_a_pod_with_a_due_write_is_evaluated_every_time(asked: list[str]) -> None:
    """The plan cannot be kept: the writes contain the time, and the required version of the pod."""
    plans, done = Plans(), pod("web-done")
    plans.look(done)
    plans.look(done)
    assert len(asked) == 2


def test_a_pod_that_a_plan_did_not_evaluate_is_forgotten(asked: list[str]) -> None:
    # given
    plans, other = Plans(), pod("web-b")
    plans.look(POD, other)
    # when a plan does not ask about the pod
    plans.look(other)
    # then the next one that asks computes its progress, and the other pod is still cached
    plans.look(POD, other)
    assert asked == ["web-a", "web-b", "web-a"]


def test_two_revisions_are_compared_once_per_set_of_options(monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    compared: list[str] = []

    def difference(_old: Template | None, _target: Template | None, **options: Any) -> UpdateSpec:
        compared.append(options["revision"])
        return UpdateSpec(revision=options["revision"], grace_seconds=options["grace_seconds"])

    monkeypatch.setattr(in_place, "find_difference", difference)
    recall, old, new = Recall(), revision_view("web-1"), revision_view("web-2")

    def ask(before: RevisionView | None, *, grace_seconds: int = 0) -> UpdateSpec | NotInPlace:
        return recall.find_difference(
            before,
            new,
            revision="web-2",
            settings=InPlaceSettings(),
            grace_seconds=grace_seconds,
            ignore_claims=False,
        )

    # when
    result = [ask(old), ask(old), ask(old, grace_seconds=5), ask(None), ask(revision_view("web-1")), ask(old)]
    # then another value of the same revision is compared again, and so is a question with other options
    assert len(compared) == 4
    assert result[0] is result[1] is result[5]
    assert isinstance(result[2], UpdateSpec)
    assert result[2].grace_seconds == 5


def revision_view(name: str) -> RevisionView:
    return RevisionView(
        namespace="default", name=name, uid=name, resource_version=1, number=1, template={}, meaning=b""
    )


def test_revisions_that_are_not_the_same_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of revisions that no longer exist leave the cache in the end."""
    # given as many comparisons as are cached
    compared: list[Template | None] = []

    def difference(old: Template | None, _: Template | None, **__: Any) -> NotInPlace:
        compared.append(old)
        return NotInPlace("another command")

    monkeypatch.setattr(in_place, "find_difference", difference)
    recall, new = Recall(), revision_view("web-2")

    def ask(*olds: RevisionView) -> int:
        """Number of comparisons for these questions."""
        before = len(compared)
        for old in olds:
            recall.find_difference(
                old, new, revision="web-2", settings=InPlaceSettings(), grace_seconds=0, ignore_claims=False
            )
        return len(compared) - before

    olds = [revision_view(f"web-{number}") for number in range(65)]
    assert ask(*olds[:64], *olds[:64]) == 64
    # when there is one more
    assert ask(olds[64], olds[64]) == 1
    # then all are compared again
    assert ask(olds[0]) == 1


class Compared(Recall):
    """A Recall that records the revisions that it compared."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def find_difference(
        self, old: Template | None, target: Template, **options: Any
    ) -> UpdateSpec | NotInPlace:
        assert isinstance(target, RevisionView)
        self.asked.append(old.name if isinstance(old, RevisionView) else "")
        can_update = old is not None and (old.name, target.name) == ("web-1", "web-3")
        return UpdateSpec(revision="web-3") if can_update else NotInPlace(f"number {len(self.asked)}")


def differences(compared: Recall, **options: Any) -> Differences:
    revisions = {number: revision_view(f"web-{number}") for number in "12"}
    return Differences(
        revisions, revision_view("web-3"), compared, revision="web-3", settings=InPlaceSettings(), **options
    )


def of_revisions(numbers: str) -> list[PodView]:
    return [
        msgspec.structs.replace(POD, name=f"{index}", revision=RevisionHash(number))
        for index, number in enumerate(numbers)
    ]


def test_pods_of_one_revision_are_compared_once() -> None:
    compared, pods, change = Compared(), of_revisions("1131"), UpdateSpec(revision="web-3")
    result = differences(compared)
    expected = [change, change, NotInPlace("number 2"), change]
    assert [result.find_difference(pod) for pod in pods] == expected
    # and a revision that is no longer stored is known, too
    assert compared.asked == ["web-1", ""]
    # and all of them together have the same answers
    assert result.split(pods) == (
        [(pods[0], change), (pods[1], change), (pods[3], change)],
        {"2": "number 2"},
    )
    assert compared.asked == ["web-1", ""]


def test_a_policy_that_recreates_pods_compares_nothing() -> None:
    compared, pods = Compared(), of_revisions("12")
    result = differences(compared, refusal="podUpdatePolicy is ReCreate")
    assert result.split(pods) == ([], dict.fromkeys("01", "podUpdatePolicy is ReCreate"))
    assert compared.asked == []


@pytest.mark.parametrize(
    ("only", "codes"),
    [
        (True, {"1": Code.NOT_IN_PLACE, "2": Code.BROKEN_UPDATE}),
        (False, {"2": Code.BROKEN_UPDATE}),
    ],
)
def test_pods_that_must_not_be_updated_have_a_reason(only: bool, codes: dict[str, Code]) -> None:
    pods = of_revisions("121")
    pods[2] = msgspec.structs.replace(pods[2], state="Tomorrow")
    refused = differences(Compared()).find_refusals(pods, only=only, updatable=("",))
    assert {name: reason.code for name, reason in refused.items()} == codes


@pytest.mark.parametrize(("pods", "most"), [(0, 10), (640, 10), (704, 11), (2048, 32), (100_000, 32)])
def test_a_large_set_begins_more_updates_with_each_plan(pods: int, most: int) -> None:
    assert in_place.count_begun_updates(pods) == most


def updating(**state: Any) -> PodView:
    """The record of an update of POD, whose container has not been replaced yet."""
    text = {"revision": "web-2", "lastContainerStatuses": {"main": {"imageID": "sha:1"}}, **state}
    status = ContainerStatusFacts(name="main", image="nginx:1", image_id="sha:1", ready=True)
    return msgspec.structs.replace(
        POD,
        containers=(ContainerFacts(name="main", image="nginx:2"),),
        container_statuses=(status,),
        annotations={keys.IN_PLACE_STATE_ANNOTATION: json.dumps(text)},
        may_be_updating=True,
    )


def test_an_update_in_progress_reports_its_start_time() -> None:
    def waits(**state: Any) -> str:
        reason = in_place.find_progress(updating(**state), now=10.0, settings=InPlaceSettings()).waits
        assert reason is not None
        assert reason.code == Code.UPDATING_IN_PLACE
        return reason.message

    since = "2026-01-31T12:00:00Z"
    without = waits()
    assert waits(updateTimestamp=since) == f"{without} (since {since})"


def test_a_completed_or_broken_update_has_no_progress_wait() -> None:
    done = in_place.find_progress(POD, now=10.0, settings=InPlaceSettings())
    assert (done.is_complete, done.is_broken, done.waits) == (True, False, None)
    annotations = {keys.IN_PLACE_STATE_ANNOTATION: "{"}
    pod = msgspec.structs.replace(POD, annotations=annotations, may_be_updating=True)
    broken = in_place.find_progress(pod, now=10.0, settings=InPlaceSettings())
    assert (broken.is_complete, broken.is_broken, broken.decision) == (False, True, None)
    assert broken.waits is not None
    assert broken.waits.code == Code.BROKEN_UPDATE


def test_an_update_continues_with_its_next_containers() -> None:
    pod = msgspec.structs.replace(
        updating(lastContainerStatuses={}, nextContainerImages={"main": "nginx:3"}),
        container_statuses=(),
    )
    progress = in_place.find_progress(pod, now=10.0, settings=InPlaceSettings())
    assert progress.decision is not None
    assert (progress.decision.pod, progress.decision.revision) == (pod, "")
    assert progress.decision.writes


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), ""),
        (("a",), "pod a: why a"),
        (("a", "b"), "pod a (and 1 more): why a"),
        (("a", "b", "c"), "pod a (and 2 more): why a"),
    ],
)
def test_the_first_of_several_pods_is_named(names: tuple[str, ...], message: str) -> None:
    refused = {name: Reason(Code.NOT_IN_PLACE, f"why {name}") for name in names}
    expected = Reason(Code.CANNOT_UPDATE, message) if names else None
    assert in_place.summary_of(refused, Code.CANNOT_UPDATE) == expected
