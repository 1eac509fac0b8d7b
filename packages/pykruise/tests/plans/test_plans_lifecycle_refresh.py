"""Bringing pods into service: the writes, the pods that wait, and the time of the next look."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import pytest

from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.documents import Document
from pykruise.plans.in_place import InPlaceProgress, Recall, SeenInPlace
from pykruise.plans.lifecycle_refresh import bring_into_service, refresh_phase
from pykruise.plans.phases import MOST_AT_ONCE, ChangePod, PlanPhase, SpecifyPod
from pykruise.pods.in_place import InPlaceSettings
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.containers import ContainerFacts
from pykruise.pods.view.pod_view import ConditionView, PodView
from pykruise.runtime.reasons import Reason

NOW = parse_time("2026-01-31T12:00:00Z")
WAITS = Reason(Code.PRE_NORMAL_HOOK, "waits for its hook")
TRUE: Document = {"type": keys.IN_PLACE_READY, "status": "True"}
BOTH = (keys.IN_PLACE_READY, keys.KRUISE_POD_READY)


def pod(name: str = "a", **fields: Any) -> PodView:
    return PodView(namespace="shop", name=name, uid=f"uid-{name}", resource_version=5, **fields)


def in_grace(name: str, *, since_s: float, text: str = "") -> PodView:
    """A pod whose grace period of 10 s began `since_s` seconds ago; `text` replaces its grace annotation."""
    state = {"revision": "web-2", "updateTimestamp": format_time(NOW - since_s)}
    grace = {"revision": "web-2", "containerImages": {"main": "nginx:2"}, "graceSeconds": 10}
    return pod(
        name,
        may_be_updating=True,
        labels={keys.REVISION_LABEL: "web-2"},
        annotations={
            keys.IN_PLACE_STATE_ANNOTATION: json.dumps(state),
            keys.IN_PLACE_GRACE_ANNOTATION: text or json.dumps(grace),
        },
    )


def refreshed(
    pods: Iterable[PodView],
    *,
    due: Iterable[str] = (),
    recall: Recall | None = None,
    asked: list[str] | None = None,
) -> PlanPhase:
    """The phase; pods in `due` need a change, and `asked` gets the names of the pods that are examined."""

    def decide(pod: PodView, _: InPlaceProgress) -> ChangePod | Reason:
        if asked is not None:
            asked.append(pod.name)
        return ChangePod(pod=pod, conditions=[TRUE], because="due") if pod.name in due else WAITS

    return refresh_phase(
        pods,
        decide=decide,
        now=NOW,
        settings=InPlaceSettings(),
        recall=recall,
    )


# ── the phase ────────────────────────────────────────────────────────────────


def test_a_pod_is_written_or_reports_its_waiting_reason() -> None:
    phase = refreshed([pod("a"), pod("b")], due=["a"])
    assert phase.touched == {"a"}
    assert phase.skipped == {"b": WAITS}
    assert (phase.is_partial, phase.look_at, phase.failure) == (False, None, None)


def test_a_pod_that_waits_for_nothing_has_no_reason() -> None:
    phase = refresh_phase([pod()], decide=lambda *_: None, now=NOW, settings=InPlaceSettings())
    assert (phase.stages, phase.skipped) == ((), {})


def test_a_new_pod_may_change_while_it_gets_its_conditions() -> None:
    """A pod whose update ends is different: another update may have begun."""

    new = pod("a", open_gates=BOTH, readiness_gates=BOTH, node_name="n1")
    decide = partial(bring_into_service, now=NOW)
    phase = refresh_phase([new], decide=decide, now=NOW, settings=InPlaceSettings())
    (change,) = phase.stages[0].decisions
    assert isinstance(change, ChangePod)
    assert [condition["type"] for condition in change.conditions] == list(BOTH)
    assert not change.unchanged


def test_the_next_time_is_the_first_of_all() -> None:
    phase = refreshed([in_grace("a", since_s=2), in_grace("b", since_s=7), in_grace("c", since_s=4)])
    assert phase.look_at == NOW + 3
    assert {why.code for why in phase.skipped.values()} == {Code.UPDATING_IN_PLACE}
    assert phase.failure is None


def test_a_pending_in_place_write_precedes_other_due_changes() -> None:
    asked: list[str] = []
    phase = refreshed([in_grace("a", since_s=11)], due=["a"], asked=asked)
    assert phase.touched == {"a"}
    assert asked == []


RESIZE_AFTER_GRACE: Final = json.dumps(
    {
        "revision": "web-2",
        "containerResources": {"main": {"requests": {"cpu": "2"}}},
        "graceSeconds": 10,
    }
)


RESIZES = InPlaceSettings(vertical_scaling=True)


def resized_after_grace() -> PodView:
    item = in_grace("a", since_s=11, text=RESIZE_AFTER_GRACE)
    return msgspec.structs.replace(item, containers=(ContainerFacts(name="main", image="nginx:1"),))


def test_a_resize_that_ends_a_grace_period_is_among_the_last_writes() -> None:
    """The API server may refuse the resize each time."""

    def decide(pod: PodView, _: InPlaceProgress) -> ChangePod:
        return ChangePod(pod=pod, conditions=[TRUE], because="due")

    phase = refresh_phase([resized_after_grace(), pod("b")], decide=decide, now=NOW, settings=RESIZES)
    written = [(stage.is_last, [each.subject for each in stage.decisions]) for stage in phase.stages]
    assert written == [(False, ["b"]), (True, ["a"])]
    assert phase.touched == {"a", "b"}


@pytest.mark.parametrize(
    ("policy", "refused_for_s", "is_specified"),
    [
        ("InPlaceIfPossible", 120, True),
        ("InPlaceIfPossible", 119, False),
        ("InPlaceIfPossible", None, False),
        ("InPlaceOnly", 120, False),
    ],
)
def test_a_pod_whose_resize_is_refused_for_too_long_is_specified_for_deletion_instead(
    policy: str, refused_for_s: float | None, is_specified: bool
) -> None:
    phase = refresh_phase(
        [resized_after_grace()],
        decide=lambda *_: None,
        policy=policy,
        refused_since=None if refused_for_s is None else NOW - refused_for_s,
        now=NOW,
        settings=RESIZES,
    )
    (stage,) = phase.stages
    (decision,) = stage.decisions
    assert isinstance(decision, SpecifyPod) is is_specified
    assert stage.is_last is not is_specified


def test_an_update_that_cannot_continue_is_a_failure() -> None:
    phase = refreshed([in_grace("a", since_s=1, text="{"), in_grace("b", since_s=1, text="{"), pod("c")])
    assert phase.failure is not None
    assert phase.failure.code == Code.BROKEN_UPDATE_STATE
    assert phase.failure.message.startswith("pod a (and 1 more): ")
    assert phase.skipped["b"].code == Code.BROKEN_UPDATE


@pytest.mark.parametrize(("pods", "is_partial"), [(MOST_AT_ONCE, False), (MOST_AT_ONCE + 1, True)])
def test_at_most_a_few_hundred_pods_are_written_per_plan(pods: int, is_partial: bool) -> None:
    names = [f"web-{number}" for number in range(pods)]
    phase = refreshed([pod(name) for name in names], due=names)
    assert (len(phase.touched), phase.is_partial) == (MOST_AT_ONCE, is_partial)


def test_in_place_progress_of_a_pod_is_kept_until_a_plan_has_evaluated_all_others() -> None:
    # given
    waiting = in_grace("waiting", since_s=2)
    first, seen = looked_at([waiting], seen=SeenInPlace())
    # when a plan does not examine the pod
    names = [f"web-{number}" for number in range(MOST_AT_ONCE + 1)]
    _, seen = looked_at([*(pod(name) for name in names), waiting], due=names, seen=seen)
    # then the pod is still cached, and the answer is the same value
    again, seen = looked_at([waiting], seen=seen)
    assert again["waiting"] is first["waiting"]
    # and it is forgotten after a plan that examined all pods and did not find it
    _, seen = looked_at([], seen=seen)
    assert seen == SeenInPlace()
    anew, _ = looked_at([waiting], seen=seen)
    assert anew == first
    assert anew["waiting"] is not first["waiting"]


def looked_at(
    pods: list[PodView], *, seen: SeenInPlace, due: Sequence[str] = ()
) -> tuple[Mapping[str, Reason], SeenInPlace]:
    """Reasons why pods are left unchanged, and the cache for the next plan."""
    recall = Recall(seen)
    return refreshed(pods, due=due, recall=recall).skipped, recall.seen


# ── due changes ──────────────────────────────────────────────────────────────


def due(pod: PodView, progress: InPlaceProgress, *released: Document) -> list[tuple[str, str]]:
    change = bring_into_service(pod, progress, released=released, now=NOW)
    return [(condition["type"], condition["status"]) for condition in change.conditions] if change else []


def test_conditions_are_written_only_for_a_scheduled_pod() -> None:
    assert due(pod(open_gates=BOTH), InPlaceProgress()) == []
    assert due(pod(open_gates=BOTH, node_name="n1"), InPlaceProgress()) == [(gate, "True") for gate in BOTH]


def test_each_condition_is_written_once() -> None:
    complete = InPlaceProgress(is_complete=True, conditions=(TRUE,))
    held: Document = {"type": keys.KRUISE_POD_READY, "status": "False"}
    item = pod(open_gates=BOTH, node_name="n1")
    assert due(item, complete, held) == [(keys.IN_PLACE_READY, "True"), (keys.KRUISE_POD_READY, "False")]
    assert due(pod(), complete) == [(keys.IN_PLACE_READY, "True")]


@pytest.mark.parametrize(
    ("before", "after", "is_released"),
    [
        ("PreparingUpdate", LifecycleState.UPDATED, True),
        ("PreparingUpdate", LifecycleState.NORMAL, True),
        ("Updating", LifecycleState.UPDATED, True),
        ("Updated", LifecycleState.NORMAL, True),
        ("Updated", None, False),
        ("PreparingUpdate", LifecycleState.UPDATING, False),
        ("PreparingDelete", LifecycleState.NORMAL, False),
    ],
)
def test_the_end_of_an_update_releases_what_its_hook_held(
    before: str, after: LifecycleState | None, is_released: bool
) -> None:
    held = ConditionView(
        keys.KRUISE_POD_READY, "False", message='[{"userAgent":"Lifecycle","key":"preUpdateHook"}]'
    )
    item = pod(state=before, readiness_gates=(keys.KRUISE_POD_READY,), conditions=(held,))
    change = bring_into_service(item, InPlaceProgress(), state=after, now=NOW)
    conditions = change.conditions if change else ()
    assert [condition["status"] for condition in conditions] == (["True"] if is_released else [])


def test_a_trace_names_the_cause_of_written_conditions_and_states() -> None:
    ready, normal = "no reason is left for condition InPlaceUpdateReady to be False", LifecycleState.NORMAL
    assert because(released=[TRUE]) == ready
    assert because(released=[TRUE], state=normal) == f"{ready}, and its state can change to Normal"
    assert because(state=normal) == "its state can change to Normal"
    assert because(released=[TRUE], state=normal, because="is kept") == f"{ready}, and is kept"
    lacking: dict[str, Any] = {"labels": {"a": "b"}, "because_of_labels": "it lacks a label"}
    assert because(**lacking) == "it lacks a label"
    assert because(released=[TRUE], **lacking) == ready


def because(**given: Any) -> str:
    change = bring_into_service(pod(), InPlaceProgress(), now=NOW, **given)
    assert change is not None
    return change.because


# ── the write ────────────────────────────────────────────────────────────────

OTHER: Document = {"type": keys.KRUISE_POD_READY, "status": "True"}
HELD = pod(conditions=(ConditionView(keys.IN_PLACE_READY, "False"),))


@pytest.mark.parametrize(
    ("item", "conditions", "labels", "is_complete", "unchanged"),
    [
        (pod(), [TRUE], {"a": "b"}, False, False),
        (pod(), [TRUE], {}, False, False),
        (pod(), [], {"a": "b"}, False, False),
        (pod(), [], {"a": "b"}, True, True),
        (HELD, [TRUE], {"a": "b"}, False, True),
        (HELD, [TRUE, OTHER], {}, False, True),
        (HELD, [OTHER], {}, False, False),
    ],
    ids=[
        "conditions that were missing",
        "no metadata",
        "metadata alone",
        "the end of an update",
        "a condition that is turned",
        "one of two is turned",
        "another one is turned",
    ],
)
def test_all_due_changes_are_one_write(
    item: PodView, conditions: list[Document], labels: dict[str, str], is_complete: bool, unchanged: bool
) -> None:
    """The write requires the unchanged pod if another update may have begun since."""
    progress = InPlaceProgress(is_complete=is_complete)
    change = bring_into_service(item, progress, released=conditions, labels=labels, now=NOW)
    assert change is not None
    assert change.metadata == ({"labels": labels} if labels else {})
    assert (change.conditions, change.unchanged) == (conditions, unchanged)


def test_a_new_state_and_further_labels_are_one_write() -> None:
    change = bring_into_service(
        pod(), InPlaceProgress(), state=LifecycleState.NORMAL, labels={"a": "b"}, now=NOW
    )
    assert change is not None
    assert change.metadata["labels"] == {keys.STATE_LABEL: "Normal", "a": "b"}


def test_a_pod_to_which_nothing_is_due_is_not_written_to() -> None:
    for is_complete in (True, False):
        progress = InPlaceProgress(is_complete=is_complete)
        assert bring_into_service(pod(), progress, now=NOW) is None
