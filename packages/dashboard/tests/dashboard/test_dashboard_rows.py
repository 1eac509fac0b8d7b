"""Rows of the pages with lists: an object in one line."""

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import orjson
import pytest

from pykruise.dashboard.feeds import AGAIN_S, Feeds
from pykruise.dashboard.jobs import build_job_row, list_job_resources
from pykruise.dashboard.objects import DashboardObject, views_of_all
from pykruise.dashboard.others import build_other_row, list_other_resources
from pykruise.dashboard.rollouts import MOST_WORDS, build_rollout_row, find_older_set, list_rollout_resources
from pykruise.dashboard.waiting import build_waiting_pod
from pykruise.kinds import find_kind, list_kinds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.cache.cache import Change
from pykruise.kube.clock import parse_time
from pykruise.kube.ids import Key
from pykruise.kube.resources import DEPLOYMENTS, NODES, PODS

NOW = parse_time("2026-01-01T01:00:00Z")


def cloneset(
    *, conditions: list[dict[str, Any]] | None = None, strategy: dict[str, Any] | None = None, **status: Any
) -> dict[str, Any]:
    """A CloneSet of ten pods, all updated and ready unless `status` says otherwise."""
    done = dict.fromkeys(
        (*("replicas", "updatedReplicas", "updatedReadyReplicas"), *("readyReplicas", "availableReplicas")),
        10,
    )
    return {
        "apiVersion": CLONE_SETS.api_version,
        "kind": "CloneSet",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"team": "blue"},
        },
        "spec": {
            "replicas": 10,
            "template": {"spec": {"containers": [{"name": "main", "image": "shop:2"}]}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": strategy or {}},
        },
        "status": {"observedGeneration": 2, **done, **status, "conditions": conditions or []},
    }


def waiting(reason: str, message: str = "…") -> dict[str, Any]:
    return {
        "type": "Waiting",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:30:00Z",
    }


def test_a_completed_rollout_is_healthy() -> None:
    row = build_rollout_row(CLONE_SETS, cloneset())
    assert (row.needs_action, row.phase, row.desired, row.updated, row.ready) == (
        False,
        "Healthy",
        10,
        10,
        10,
    )
    assert row.id == "clonesets.apps.kruise.io/shop/web"
    assert row.images == ("shop:2",)
    assert row.since == "2026-01-01T00:00:00Z"


def test_a_progressing_rollout_shows_its_progress() -> None:
    row = build_rollout_row(CLONE_SETS, cloneset(updatedReplicas=4, updatedReadyReplicas=3))
    assert (row.needs_action, row.phase) == (False, "Progressing")
    assert row.line.startswith("Waiting for partitioned roll out to finish: 4 out of 10")


def test_a_rollout_that_needs_a_person_is_marked_with_its_reason() -> None:
    stuck = cloneset(updatedReplicas=2, conditions=[waiting("ImagePull", "image shop:2 cannot be pulled")])
    row = build_rollout_row(CLONE_SETS, stuck)
    assert (row.needs_action, row.code, row.waits) == (True, "ImagePull", "image shop:2 cannot be pulled")
    assert row.since == "2026-01-01T00:30:00Z"


def test_a_stalled_rollout_needs_action_also_where_another_manager_wrote_it() -> None:
    stalled = {"type": "Stalled", "status": "True", "reason": "ProgressDeadlineExceeded"}
    assert (
        build_rollout_row(CLONE_SETS, cloneset(updatedReplicas=2, conditions=[stalled])).needs_action is True
    )


def test_waiting_for_a_turn_is_a_movement() -> None:
    row = build_rollout_row(CLONE_SETS, cloneset(updatedReplicas=2, conditions=[waiting("Turn")]))
    assert (row.needs_action, row.phase) == (False, "Progressing")


def test_a_partition_keeps_no_pod_when_all_are_updated() -> None:
    counts = {"updatedReplicas": 10, "updatedReadyReplicas": 10}
    row = build_rollout_row(CLONE_SETS, cloneset(strategy={"partition": "50%"}, **counts))
    assert (row.desired, row.updated, row.kept) == (10, 10, 0)


@pytest.mark.parametrize(("strategy", "kept"), [({"paused": True}, 0), ({"partition": "50%"}, 5)])
def test_a_paused_or_partitioned_rollout_has_the_phase_paused(strategy: dict[str, Any], kept: int) -> None:
    held = cloneset(strategy=strategy, updatedReplicas=5, updatedReadyReplicas=5)
    row = build_rollout_row(CLONE_SETS, held)
    assert (row.needs_action, row.phase, row.kept) == (False, "Paused", kept)
    # and while one of its pods is unavailable, the rollout progresses
    held["status"]["availableReplicas"] = 9
    assert build_rollout_row(CLONE_SETS, held).phase == "Progressing"


def test_a_rollout_complete_up_to_its_partition_is_paused() -> None:
    held = cloneset(strategy={"partition": 5}, updatedReplicas=5, updatedReadyReplicas=5)
    assert (build_rollout_row(CLONE_SETS, held).needs_action, build_rollout_row(CLONE_SETS, held).phase) == (
        False,
        "Paused",
    )
    over = cloneset(strategy={"partition": 5})
    assert build_rollout_row(CLONE_SETS, over).phase == "Healthy"


def test_the_older_image_is_that_of_the_current_revision() -> None:
    older = {"data": {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "shop:1"}]}}}}}
    row = build_rollout_row(CLONE_SETS, cloneset(updatedReplicas=2), current=older)
    assert (row.old_images, row.images) == (("shop:1",), ("shop:2",))


def test_a_deployments_older_image_is_that_of_its_newest_older_replicaset_with_pods() -> None:
    def replica_set(revision: str, replicas: int) -> dict[str, Any]:
        template = {"spec": {"containers": [{"name": "main", "image": f"shop:{revision}"}]}}
        meta = {"name": revision, "annotations": {"deployment.kubernetes.io/revision": revision}}
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": meta,
            "spec": {"template": template},
            "status": {"replicas": replicas},
        }

    sets = [replica_set("9", 0), replica_set("10", 1), replica_set("7", 2), replica_set("8", 2)]
    older = find_older_set(sets)
    row = build_rollout_row(
        DEPLOYMENTS, {**cloneset(), "apiVersion": "apps/v1", "kind": "Deployment"}, current=older
    )
    assert row.old_images == ("shop:8",)
    assert find_older_set([replica_set("1", 3)]) is None
    assert find_older_set([]) is None


@pytest.mark.parametrize("field", ["status", "spec"])
def test_an_object_without_a_status_or_with_nonsense_in_its_spec_still_has_a_row(field: str) -> None:
    for nonsense in ({}, {"replicas": "ten"}, {"updateStrategy": 5}):
        document = {**cloneset(), field: nonsense}
        assert build_rollout_row(CLONE_SETS, document).name == "web"


@pytest.mark.parametrize("resource", list_rollout_resources(), ids=str)
def test_every_kind_with_a_rollout_has_a_row_from_its_creation_on(resource: Any) -> None:
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "new", "namespace": "shop", "generation": 1},
        "spec": {"replicas": 1},
    }
    row = build_rollout_row(resource, document)
    assert (row.kind, row.id) == (resource.kind, f"{resource}/shop/new")


def test_a_deployments_row_has_the_same_counts() -> None:
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "old", "namespace": "shop", "generation": 1},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "a", "image": "a:1"}]}}},
        "status": {"observedGeneration": 1, "updatedReplicas": 1, "replicas": 2, "readyReplicas": 2},
    }
    row = build_rollout_row(DEPLOYMENTS, document)
    assert (row.needs_action, row.updated, row.desired) == (False, 1, 2)


def test_a_megabyte_of_condition_text_is_shortened_in_its_row() -> None:
    long = cloneset(conditions=[waiting("ImagePull", "<script>alert(1)</script>" * 40_000)])
    body = orjson.dumps(msgspec.to_builtins(build_rollout_row(CLONE_SETS, long)))
    assert len(body) < 3 * MOST_WORDS
    assert b"<script>" in body  # as text: the page shows it without interpreting it


# ── pods ─────────────────────────────────────────────────────────────────────


def pod(**status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-x",
            "namespace": "shop",
            "uid": "u",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "kubelet"}],
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "shop:2"}]},
        "status": {"phase": "Pending", **status},
    }


def seen(document: dict[str, Any]) -> DashboardObject:
    return views_of_all()[PODS].projector()(orjson.dumps(document))


PULLING = {
    "containerStatuses": [
        {
            "name": "main",
            "ready": False,
            "restartCount": 0,
            "image": "shop:2",
            "imageID": "",
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
        }
    ]
}


def test_a_waiting_pod_shows_the_reason_of_explain() -> None:
    row = build_waiting_pod(seen(pod(**PULLING)), owner=(CLONE_SETS, cloneset()), now=NOW)
    assert row is not None
    assert (row.code, row.owner_kind, row.owner, row.needs_a_person) == ("ImagePull", "CloneSet", "web", True)
    assert "no such image" in row.words
    assert row.remedy


def test_a_ready_or_finished_pod_is_not_explained() -> None:
    ready = [{"type": "Ready", "status": "True"}]
    assert not seen(pod(phase="Running", conditions=ready)).waits
    assert not seen(pod(phase="Succeeded")).waits
    assert seen(pod(**PULLING)).waits


def test_a_pod_without_an_owner_waits_too() -> None:
    row = build_waiting_pod(seen(pod(**PULLING)), owner=None, now=NOW)
    assert row is not None
    assert (row.owner, row.owner_kind) == ("", "")


class Held:
    """A cache with these objects. The test sends their events."""

    synced = True

    def __init__(self, *views: DashboardObject) -> None:
        self.views = {Key(view.namespace, view.name): view for view in views}
        self._handlers: list[Any] = []

    def subscribe(self, handler: Any) -> None:
        self._handlers.append(handler)

    def get(self, key: Key) -> DashboardObject | None:
        return self.views.get(key)

    def values(self) -> list[DashboardObject]:
        return list(self.views.values())

    def list_by_index(self, _index: str, _value: str) -> list[DashboardObject]:
        return []

    def announce(self) -> None:
        """Send the event of each object."""
        for key, view in self.views.items():
            for handler in self._handlers:
                handler(Change(key, None, view))


def node(*, is_ready: bool) -> DashboardObject:
    ready = {"type": "Ready", "status": str(is_ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    meta = {"name": "node-1", "uid": "n", "resourceVersion": "1"}
    document = {"metadata": meta, "status": {"conditions": [ready]}}
    return views_of_all()[NODES].projector()(orjson.dumps(document))


def terminating() -> dict[str, Any]:
    document = pod(phase="Running")
    document["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
    return document


def unscheduled() -> dict[str, Any]:
    document = pod()
    del document["spec"]["nodeName"]
    return document


@pytest.mark.parametrize(
    ("document", "first", "then"),
    [(terminating(), "Terminating", "NodeLost"), (unscheduled(), "Scheduling", "NoScheduler")],
    ids=["node lost", "no scheduler"],
)
async def test_the_reason_of_a_waiting_pod_is_found_again_without_an_event(
    document: dict[str, Any], first: str, then: str
) -> None:
    # given a pod that has just begun to wait
    caches: Any = {resource: Held() for resource in views_of_all()}
    caches[PODS], caches[NODES] = Held(seen(document)), Held(node(is_ready=True))
    now = parse_time("2026-01-01T00:00:05Z")
    feeds = Feeds(caches, clock=lambda: now)
    caches[PODS].announce()

    def code() -> Any:
        (row,) = feeds.pods.list_rows()
        return orjson.loads(row.body)["code"]

    assert code() == first
    # when its node stops to respond, and time passes, without an event of the pod
    now += 20.0
    caches[NODES].views[Key("", "node-1")] = node(is_ready=False)
    now += 100.0 if then == "NoScheduler" else 0.0
    task = asyncio.create_task(feeds.run())
    await asyncio.sleep(AGAIN_S + 1.0)
    assert code() == then
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_a_kept_view_has_the_objects_kind_and_no_managed_fields() -> None:
    view = seen({key: value for key, value in pod().items() if key not in ("kind", "apiVersion")})
    assert view.to_document["kind"] == "Pod"
    assert "managedFields" not in view.to_document["metadata"]
    assert (view.resource_version, view.uid) == (7, "u")


# ── jobs ─────────────────────────────────────────────────────────────────────


def job(kind: str, spec: dict[str, Any], status: dict[str, Any]) -> Any:
    resource = find_kind(kind).resource
    document = {"kind": kind, "metadata": {"name": "j", "namespace": "shop"}, "spec": spec, "status": status}
    return build_job_row(resource, document)


def test_a_job_that_failed_on_a_node_needs_action() -> None:
    row = job(
        "ImagePullJob", {}, {"desired": 3, "succeeded": 1, "failed": 2, "startTime": "2026-01-01T00:00:00Z"}
    )
    assert (row.needs_action, row.desired, row.succeeded, row.failed) == (True, 3, 1, 2)
    assert "2 failed" in row.line


def test_a_running_job_is_progressing_and_a_finished_one_completed() -> None:
    begun = {"desired": 3, "active": 3, "startTime": "2026-01-01T00:00:00Z"}
    assert job("BroadcastJob", {}, begun).phase == "Progressing"
    ended = {"desired": 3, "succeeded": 3, "phase": "completed", "completionTime": "2026-01-01T00:01:00Z"}
    assert job("BroadcastJob", {}, ended).phase == "Completed"


def test_a_schedule_counts_what_it_runs() -> None:
    row = job("AdvancedCronJob", {"schedule": "@hourly"}, {"active": [{"name": "a"}, {"name": "b"}]})
    assert (row.schedule, row.active) == ("@hourly", 2)


def test_a_node_shows_each_image_with_its_phase() -> None:
    spec = {"images": {"nginx": {"tags": [{"tag": "1"}, {"tag": "2"}]}}}
    tags = [{"tag": "1", "phase": "Pulling", "progress": 30}]
    status = {"desired": 2, "pulling": 1, "imageStatuses": {"nginx": {"tags": tags}}}
    row = job("NodeImage", spec, status)
    assert [(image.image, image.phase, image.progress) for image in row.images] == [
        ("nginx:1", "Pulling", 30),
        ("nginx:2", "Waiting", 0),
    ]
    assert row.needs_action is False


# ── other objects ────────────────────────────────────────────────────────────


def test_every_watched_kind_is_in_a_list_of_the_dashboard() -> None:
    lists = {*list_rollout_resources(), *list_job_resources(), *list_other_resources()}
    assert lists >= {kind.resource for kind in list_kinds() if kind.versions}


@pytest.mark.parametrize("resource", list_other_resources(), ids=str)
def test_an_object_without_a_rollout_has_a_row_before_its_first_status(resource: Any) -> None:
    row = build_other_row(resource, {"metadata": {"name": "o", "creationTimestamp": "2026-01-01T00:00:00Z"}})
    assert (row.id, row.kind, row.since) == (f"{resource}//o", resource.kind, "2026-01-01T00:00:00Z")


def test_the_row_of_another_kind_shows_explains_first_line_or_the_columns_of_kubectl_get() -> None:
    def line(kind: str, **parts: Any) -> str:
        return build_other_row(find_kind(kind).resource, {"metadata": {"name": "o"}, **parts}).line

    status = {"unavailableAllowed": 0, "currentAvailable": 2, "desiredAvailable": 2, "totalReplicas": 3}
    assert line("PodUnavailableBudget", status=status) == "Allowed: 0, Current: 2, Desired: 2, Total: 3"
    assert line("PodProbeMarker", status={"matchedPods": 2}).startswith("2 pods")
    spec = {"targetRef": {"name": "web", "kind": "CloneSet"}, "scheduleStrategy": {"type": "Adaptive"}}
    assert line("WorkloadSpread", spec=spec) == "WorkloadName: web, WorkloadKind: CloneSet"
    assert line("WorkloadSpread", spec={"targetRef": 5}, status="none") == ""
