"""ContainerRecreateRequest, PodProbeMarker and EphemeralJob. The agent on the nodes is pykruise's."""

from typing import Any, Final

from recorded_original.language import (
    Create,
    Delete,
    DeletePod,
    Document,
    Group,
    Patch,
    Settle,
    Try,
    TryPatch,
)
from recorded_original.scenarios.documents import BOTH, KRUISE, build_difference, build_scenario, workload

__all__ = ["CONTAINER_RECREATE_REQUEST", "EPHEMERAL_JOB", "POD_PROBE_MARKER"]

_REQUEST: Final = "ContainerRecreateRequest"
_MARKER: Final = "PodProbeMarker"
_JOB: Final = "EphemeralJob"
_OLDER: Final = "apps.kruise.io/v1alpha1"


def _request(*containers: str, name: str = "again", **spec: Any) -> Document:
    spec = {
        "podName": "web",
        "containers": [{"name": container} for container in containers or ("main",)],
        **spec,
    }
    return {"apiVersion": KRUISE, "kind": _REQUEST, "metadata": {"name": name}, "spec": spec}


def _pod(*more: Document, image: str = "nginx:1") -> Create:
    containers = [{"name": "main", "image": image}, {"name": "side", "image": "side:1"}, *more]
    metadata = {"name": "web", "labels": {"app": "web"}}
    return Create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}
    )


def _again(*containers: str, **spec: Any) -> Create:
    return Create(_request(*containers, **spec))


CONTAINER_RECREATE_REQUEST: Final = Group(
    kind=_REQUEST,
    scenarios=(
        build_scenario("one container", _pod(), Settle(), _again(), Settle(), versions=BOTH),
        build_scenario("two containers", _pod(), Settle(), _again("main", "side"), Settle(), versions=BOTH),
        build_scenario(
            "in order",
            _pod(),
            Settle(),
            _again("main", "side", strategy={"orderedRecreate": True}),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "the pod is not ready meanwhile",
            _pod(),
            Settle(),
            _again(strategy={"unreadyGracePeriodSeconds": 3}),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "only what has run for a while",
            _pod(),
            Settle(),
            _again(strategy={"minStartedSeconds": 3}),
            Settle(quiet_s=8),
            versions=BOTH,
        ),
        build_scenario(
            "it is removed after it is done",
            _pod(),
            Settle(),
            _again(ttlSecondsAfterFinished=20),
            Settle(quiet_s=3),
            Settle(quiet_s=25),
            versions=BOTH,
        ),
        build_scenario("no such container", _pod(), Settle(), _again("none"), Settle(), versions=BOTH),
        build_scenario("no such pod", _again(), Settle(), versions=BOTH),
        build_scenario(
            "the pod is deleted meanwhile",
            _pod(),
            Settle(),
            _again(strategy={"minStartedSeconds": 60}),
            Settle(),
            DeletePod("web", 0),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a deadline passes",
            _pod(),
            Settle(),
            _again(strategy={"minStartedSeconds": 600}, activeDeadlineSeconds=4),
            Settle(quiet_s=8),
            versions=BOTH,
        ),
        build_scenario(
            "a container that has not begun",
            _pod(image="nginx/broken"),
            Settle(),
            _again(),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "forced", _pod(), Settle(), _again(strategy={"forceRecreate": True}), Settle(), versions=BOTH
        ),
        build_scenario(
            "twice",
            _pod(),
            Settle(),
            _again(),
            Settle(),
            Create(_request(name="once-more")),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "deleted",
            _pod(),
            Settle(),
            _again(),
            Settle(),
            Delete(_REQUEST, "again"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "the smallest manifest",
            _pod(),
            Settle(),
            Try(_request()),
            Try(_request(strategy={})),
            versions=BOTH,
        ),
        build_scenario(
            "wrong values",
            _pod(),
            Settle(),
            Try(_request(podName="")),
            Try(_request(podName="none")),
            Try({**_request(), "spec": {"podName": "web", "containers": []}}),
            Try(_request("main", "main")),
            Try(_request("none")),
            Try(_request(strategy={"failurePolicy": "Sometimes"})),
            Try(_request(strategy={"minStartedSeconds": -1})),
            Try(_request(strategy={"unreadyGracePeriodSeconds": -1})),
            Try(_request(activeDeadlineSeconds=-1)),
            Try(_request(ttlSecondsAfterFinished=-1)),
            versions=BOTH,
            differs=(build_difference("it could only fail later", "6 *", "9 *", "12 *", only_in="v1alpha1"),),
        ),
        build_scenario(
            "changes",
            _pod(),
            Settle(),
            _again(),
            Settle(),
            TryPatch(_REQUEST, "again", {"spec": {"podName": "other"}}),
            TryPatch(_REQUEST, "again", {"metadata": {"labels": {"a": "b"}}}),
            versions=BOTH,
        ),
    ),
)


def _marker(*probes: Document, **spec: Any) -> Document:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "probes": list(probes) or [_probe()], **spec}
    return {"apiVersion": _OLDER, "kind": _MARKER, "metadata": {"name": "marker"}, "spec": spec}


def _probe(name: str = "idle", **fields: Any) -> Document:
    return {
        "name": name,
        "containerName": "main",
        "probe": {"exec": {"command": ["true"]}, "periodSeconds": 1},
        "podConditionType": "example.com/idle",
        **fields,
    }


def _web(replicas: int = 2) -> Create:
    return Create(workload("CloneSet", replicas=replicas))


_MARKS: Final[Document] = {
    "markerPolicy": [
        {"state": "Succeeded", "labels": {"idle": "yes"}, "annotations": {"note": "1"}},
        {"state": "Failed", "labels": {"idle": "no"}},
    ]
}

POD_PROBE_MARKER: Final = Group(
    kind=_MARKER,
    scenarios=(
        build_scenario(
            "a probe becomes a condition",
            _web(),
            Settle(),
            Create(_marker()),
            Settle(quiet_s=8),
            versions=BOTH,
        ),
        build_scenario(
            "a probe marks pods",
            _web(),
            Settle(),
            Create(_marker(_probe(**_MARKS))),
            Settle(quiet_s=8),
            versions=BOTH,
        ),
        build_scenario(
            "pods come later", Create(_marker(_probe(**_MARKS))), _web(), Settle(quiet_s=8), versions=BOTH
        ),
        build_scenario(
            "no pod matches",
            Create(_marker(selector={"matchLabels": {"app": "none"}})),
            _web(1),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "no such container",
            _web(1),
            Create(_marker(_probe(containerName="none"))),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "two probes",
            _web(1),
            Settle(),
            Create(_marker(_probe(**_MARKS), _probe("other", podConditionType="example.com/other"))),
            Settle(quiet_s=8),
            versions=BOTH,
        ),
        build_scenario("the smallest manifest", Try(_marker()), versions=BOTH),
        build_scenario(
            "deleted",
            _web(1),
            Settle(),
            Create(_marker(_probe(**_MARKS))),
            Settle(quiet_s=8),
            Delete(_MARKER, "marker"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "defaults",
            Try(_marker(_probe(probe={"exec": {"command": ["true"]}}))),
            Try(_marker(_probe(probe={"tcpSocket": {"port": 80}}))),
            Try(_marker(_probe(probe={"httpGet": {"port": 80}}))),
            versions=BOTH,
            differs=(build_difference("left out the scheme is HTTP, and the path /", "3 */fields/*"),),
        ),
        build_scenario(
            "wrong values",
            Try(_marker(selector={})),
            Try({**_marker(), "spec": {"selector": {"matchLabels": {"a": "b"}}, "probes": []}}),
            Try(_marker(_probe(name=""))),
            Try(_marker(_probe(), _probe())),
            Try(_marker(_probe(), _probe("other", podConditionType="example.com/idle"))),
            Try(_marker(_probe(containerName=""))),
            Try(_marker(_probe(probe={}))),
            Try(_marker(_probe(probe={"exec": {"command": ["true"]}, "periodSeconds": -1}))),
            Try(_marker(_probe(podConditionType="not a condition!"))),
            Try(_marker(_probe(podConditionType="Ready"))),
            Try(_marker(_probe(podConditionType=""))),
            Try(_marker(_probe(markerPolicy=[{"state": "Unknown", "labels": {"a": "b"}}]))),
            Try(_marker(_probe(markerPolicy=[{"state": "Succeeded"}]))),
            versions=BOTH,
            differs=(
                build_difference("a condition of Kubernetes' own would be overwritten", "10 *"),
                build_difference(
                    "the path leads to the field",
                    "*/fields/spec.probes",
                    "7 */fields/*",
                    "8 */fields/*",
                    "9 */fields/*",
                    "11 */fields/*",
                    "12 */fields/*",
                    "13 */fields/*",
                ),
            ),
        ),
    ),
)


def _debug(**spec: Any) -> Document:
    container = {
        "name": "debug",
        "image": "busybox:1",
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePolicy": "File",
    }
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"ephemeralContainers": [container]},
        **spec,
    }
    return {"apiVersion": _OLDER, "kind": _JOB, "metadata": {"name": "debug"}, "spec": spec}


EPHEMERAL_JOB: Final = Group(
    kind=_JOB,
    differs=(
        build_difference(
            "no finalizer is set, since it protects nothing", "*/objects/EphemeralJob */finalizers"
        ),
    ),
    scenarios=(
        build_scenario("all pods are debugged", _web(), Settle(), Create(_debug()), Settle(), versions=BOTH),
        build_scenario(
            "one pod at a time", _web(), Settle(), Create(_debug(parallelism=1)), Settle(), versions=BOTH
        ),
        build_scenario(
            "as many pods as are asked for",
            _web(3),
            Settle(),
            Create(_debug(replicas=1)),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "paused",
            _web(),
            Settle(),
            Create(_debug(paused=True)),
            Settle(),
            Patch(_JOB, "debug", {"spec": {"paused": False}}),
            Settle(),
            versions=BOTH,
        ),
        build_scenario("no pod matches", Create(_debug()), Settle(), versions=BOTH),
        build_scenario("pods come later", Create(_debug()), _web(1), Settle(), versions=BOTH),
        build_scenario(
            "it is removed after it is done",
            _web(1),
            Settle(),
            Create(_debug(ttlSecondsAfterFinished=20)),
            Settle(quiet_s=3),
            Settle(quiet_s=25),
            versions=BOTH,
        ),
        build_scenario(
            "a deadline passes", Create(_debug(activeDeadlineSeconds=4)), Settle(quiet_s=8), versions=BOTH
        ),
        build_scenario(
            "deleted",
            _web(1),
            Settle(),
            Create(_debug()),
            Settle(),
            Delete(_JOB, "debug"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario("the smallest manifest", Try(_debug()), versions=BOTH),
        build_scenario(
            "wrong values",
            Try(_debug(selector={})),
            Try(_debug(selector=None)),
            Try(_debug(template={"ephemeralContainers": []})),
            Try(_debug(replicas=-1)),
            Try(_debug(parallelism=-1)),
            versions=BOTH,
            differs=(build_difference("it could only fail later", "4 *", "5 *"),),
        ),
    ),
)
