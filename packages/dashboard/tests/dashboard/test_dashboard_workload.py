"""The page of one object: its parts, and the actions that it offers."""

from typing import Any

import pytest

from pykruise.cli.errors import CommandError
from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.cli.kubectl.resources import Info
from pykruise.cli.kubectl.revisions import Revision
from pykruise.dashboard.actions import DashboardAction, actions_of, argv_of
from pykruise.dashboard.rollouts import list_rollout_resources
from pykruise.dashboard.workload import (
    MOST_EVENTS,
    MOST_PODS,
    build_events_part,
    build_explained_part,
    build_history_part,
    build_pods_part,
    head,
    is_named_in_mark,
)
from pykruise.kinds import list_kinds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.resources import CONTROLLER_REVISIONS, DEPLOYMENTS, Resource
from support.scenario import cloneset, rolling

NOW = 1_800_000_000.0


def named(document: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], "namespace": "shop", **metadata}}


WEB = named(cloneset(updateStrategy=rolling(partition=1, maxUnavailable="20%")), generation=1)


def pod(name: str, revision: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "labels": {"controller-revision-hash": f"web-{revision}"}}
    return {
        "metadata": {**metadata, **more},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "nginx:1"}]},
        "status": {"phase": "Running"},
    }


def revision(number: int, image: str) -> Revision:
    content = {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}
    document = {"metadata": {"name": f"web-r{number}", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    info = Info(resource=CONTROLLER_REVISIONS, namespace="shop", name=f"web-r{number}", document=document)
    return Revision(number=number, content=content, info=info)


def test_the_head_requires_the_right_to_list_the_kind_and_offers_what_if_fields() -> None:
    part = head(CLONE_SETS, WEB, current=None)
    assert (part.resource, part.namespace) == ("clonesets.apps.kruise.io", "shop")
    asked = {name: now for name, _, now in part.body["what_if"]}
    assert asked["image=main"] == "nginx:1"
    assert (asked["partition"], asked["maxUnavailable"], asked["replicas"]) == ("1", "20%", "3")
    assert part.body["is_explained"] is True


def test_plan_offers_nothing_for_workloads_of_kubernetes() -> None:
    deployment = {**WEB, "apiVersion": "apps/v1", "kind": "Deployment"}
    body = head(DEPLOYMENTS, deployment, current=None).body
    assert (body["is_explained"], body["what_if"]) == (False, ())
    assert body["actions"]


SELECTING = [kind.resource for kind in list_kinds() if kind.shown is not None and kind.shown.pods != "owned"]


@pytest.mark.parametrize("resource", SELECTING, ids=str)
def test_pods_of_other_owners_have_no_revision_of_the_object_that_selects_them(resource: Resource) -> None:
    document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "set"}}
    pods = [pod("web-a", "r1"), pod("api-b", "r7")]
    body = build_pods_part(pods, [], document, namespace="shop", now=NOW).body
    groups = [(group["revision"], len(group["pods"])) for group in body["groups"]]
    assert groups == [("", 2)]


@pytest.mark.parametrize(
    ("annotations", "is_named"),
    [
        ({"kruise.io/sidecarset-hash": '{"logs": {"hash": "a"}}'}, True),
        ({"kruise.io/sidecarset-hash": '{"logs-2": {"hash": "logs"}}'}, False),
        ({"kruise.io/sidecarset-injected-list": "proxy,logs"}, True),
        ({"kruise.io/sidecarset-injected-list": "proxy,logs-2"}, False),
        ({"kruise.io/sidecarset-matched": '{"name":"logs","subset":"a"}'}, True),
        ({"kruise.io/sidecarset-matched": '{"name":"web","subset":"logs"}'}, False),
        ({"kruise.io/sidecarset-matched": '["logs"'}, False),
        ({"other": "logs"}, False),
    ],
)
def test_a_pod_is_an_objects_if_an_annotation_names_exactly_this_object(
    annotations: dict[str, str], is_named: bool
) -> None:
    document = pod("web-a", "r1", annotations=annotations)
    assert is_named_in_mark(document, "kruise.io/sidecarset", "logs") is is_named


def test_pods_are_under_their_revisions_the_newest_first() -> None:
    status = {"updateRevision": "web-r2"}
    pods = [pod("web-a", "r1"), pod("web-b", "r2"), pod("web-c", "r1")]
    part = build_pods_part(
        pods, [revision(1, "nginx:1"), revision(2, "nginx:2")], {"status": status}, namespace="shop", now=NOW
    )
    assert part.resource == "pods"
    result = [
        (group["number"], group.get("is_newest", False), [p["name"] for p in group["pods"]])
        for group in part.body["groups"]
    ]
    assert result == [(2, True, ["web-b"]), (1, False, ["web-a", "web-c"])]


def test_pods_show_their_subset() -> None:
    spread = {"apps.kruise.io/matched-workloadspread": '{"name": "s", "subset": "zone-a"}'}
    pods = [
        pod("a", "r1", annotations=spread),
        pod("b", "r1", labels={"apps.kruise.io/subset-name": "zone-b"}),
        pod("c", "r1", annotations={"apps.kruise.io/matched-workloadspread": "{nonsense"}),
    ]
    part = build_pods_part(pods, [], {}, namespace="shop", now=NOW)
    result = {pod["name"]: pod.get("subset") for group in part.body["groups"] for pod in group["pods"]}
    assert result == {"a": "zone-a", "b": "zone-b", "c": None}


def test_only_the_first_of_very_many_pods_are_shown_and_all_are_counted() -> None:
    part = build_pods_part(
        [pod(f"p{n}", "r1") for n in range(MOST_PODS + 5)], [], {}, namespace="shop", now=NOW
    )
    assert part.body["count"] == MOST_PODS + 5
    assert (len(part.body["groups"][0]["pods"]), part.body["groups"][0]["more"]) == (MOST_PODS, 5)


def test_the_history_shows_what_each_revision_changed() -> None:
    part = build_history_part(
        [revision(1, "nginx:1"), revision(2, "nginx:2")],
        namespace="shop",
        resource="controllerrevisions.apps",
    )
    newest, oldest = part.body["revisions"]
    assert list(newest["changes"]) == ["template.spec.containers[main].image: nginx:1 → nginx:2"]
    assert (newest["is_newest"], "changes" in oldest) == (True, False)


def test_reasons_for_waiting_are_shown_to_users_who_may_list_its_pods() -> None:
    wait = Wait(code="ImagePull", words="x" * 1_000_000, pods=tuple(f"web-{n}" for n in range(500)))
    said = Explanation(
        kind="CloneSet", namespace="shop", name="web", verdict="waiting", headline="…", waits=(wait,)
    )
    part = build_explained_part(said, namespace="shop")
    assert (part.resource, part.namespace) == ("pods", "shop")
    shown = part.body["waits"][0]
    assert (len(shown["words"]) <= 2_000, len(shown["pods"]), shown["count"]) == (True, 50, 500)


def test_events_are_the_newest_first_and_not_more_than_one_can_read() -> None:
    events = [
        {"reason": f"r{n}", "lastTimestamp": f"2026-01-01T00:{n // 60:02d}:{n % 60:02d}Z"}
        for n in range(MOST_EVENTS + 9)
    ]
    part = build_events_part(events, namespace="shop")
    assert part.resource == "events"
    assert (part.body["events"][0]["reason"], part.body["more"]) == (f"r{MOST_EVENTS + 8}", 9)


# ── commands ─────────────────────────────────────────────────────────────────


def action(name: str, document: dict[str, Any] = WEB) -> DashboardAction:
    return next(action for action in actions_of(CLONE_SETS, document) if action.id == name)


def test_each_action_is_a_command_to_copy() -> None:
    assert action("pause").command == "kubectl kruise rollout pause clonesets.apps.kruise.io/web -n shop"
    assert action("scale").command == "kubectl kruise scale clonesets.apps.kruise.io/web --replicas=3 -n shop"
    assert (
        action("partition").command == "kubectl kruise set partition clonesets.apps.kruise.io/web 1 -n shop"
    )


def test_a_paused_workload_can_be_resumed() -> None:
    paused = named(cloneset(updateStrategy=rolling(paused=True)))
    ids = [action.id for action in actions_of(CLONE_SETS, paused)]
    assert "resume" in ids
    assert "pause" not in ids


def test_a_value_stays_one_argument_with_any_characters() -> None:
    argv = argv_of(action("image-0"), {"image": "nginx:2 --all; rm -rf / $(x)"})
    assert argv == [
        "set",
        "image",
        "clonesets.apps.kruise.io/web",
        "main=nginx:2 --all; rm -rf / $(x)",
        "-n",
        "shop",
    ]


@pytest.mark.parametrize("value", ["", "-1", "--all", "5\n6", None, 5])
def test_an_empty_value_or_one_that_could_be_a_flag_is_refused(value: Any) -> None:
    with pytest.raises(CommandError):
        argv_of(action("partition"), {"value": value})


def test_a_hostile_name_of_a_container_is_quoted() -> None:
    odd = named(cloneset())
    odd["spec"]["template"]["spec"]["containers"][0]["name"] = "a; echo b"
    assert action("image-0", odd).command.endswith("'a; echo b=nginx:1' -n shop")


@pytest.mark.parametrize("resource", list_rollout_resources(), ids=str)
def test_every_kind_with_a_rollout_has_commands(resource: Any) -> None:
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "one", "namespace": "shop"},
        "spec": {},
    }
    assert actions_of(resource, document)
