"""A random script: a workload whose containers are recreated, and faults.

seed ──▶ generate() ──▶ Script
"""

import random
from typing import Any

from simulation.chance import Chooser, image_faults, kruise_object, scripted, with_pods, writers
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Operation, Script

__all__ = ["generate"]

_PATHS = (
    "/pods",
    "/containerrecreaterequests",
    "/containerrecreaterequests",
    "/containerrecreaterequests",
    "",
)
_WATCHES = ("/pods", "/pods", "/containerrecreaterequests", "/containerrecreaterequests")
_HOOKS: tuple[dict[str, Any], ...] = (
    {"exec": {"command": ["sleep", "3"]}},
    {"httpGet": {"path": "/stop", "port": "web", "scheme": "HTTP"}},
    {"tcpSocket": {"port": 80}},
)
_NODES = 3
_NAMES = 5
"""Number of names of requests: a name is used again after its request is deleted."""


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"containerrecreaterequest-{seed}")
    kind = rng.choice(("CloneSet", "CloneSet", "StatefulSet"))
    length_s = rng.choice((20.0, 60.0, 180.0))
    return scripted(
        rng,
        seed,
        kind=f"containerrecreaterequest of {kind}",
        object=_workload(rng, kind),
        nodes=_NODES,
        operations=_operations(rng, kind, length_s),
        faults=faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES),
    )


def _workload(rng: random.Random, kind: str) -> dict[str, Any]:
    labels = {"app": "web"}
    containers: list[dict[str, Any]] = [{"name": "main", "image": "app:1"}]
    if rng.random() < 0.6:
        containers.append({"name": "side", "image": "app:1"})
    if rng.random() < 0.3:
        containers[0]["ports"] = [{"name": "web", "containerPort": 80, "protocol": "TCP"}]
        containers[0]["lifecycle"] = {"preStop": rng.choice(_HOOKS)}
    pod: dict[str, Any] = {"containers": containers}
    rolling: dict[str, Any] = {
        "podUpdatePolicy": rng.choice(("ReCreate", "InPlaceIfPossible", "InPlaceIfPossible")),
        "maxUnavailable": rng.choice((1, 2, "100%")),
    }
    spec: dict[str, Any] = {
        "replicas": rng.choice((1, 1, 2, 3)),
        "selector": {"matchLabels": labels},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    if kind == "StatefulSet":
        spec["podManagementPolicy"] = rng.choice(("Parallel", "OrderedReady"))
        if spec["podManagementPolicy"] == "OrderedReady":
            rolling["maxUnavailable"] = 1
        if rolling["podUpdatePolicy"] != "ReCreate":
            pod["readinessGates"] = [{"conditionType": "InPlaceUpdateReady"}]
    return kruise_object(kind, spec)


def _asked(rng: random.Random) -> dict[str, Any]:
    """A request of a user."""
    names = rng.choice((["main"], ["main"], ["main", "side"], ["main", "side"], ["side", "main"], ["side"]))
    result: dict[str, Any] = {"containers": [{"name": name} for name in names]}
    strategy: dict[str, Any] = {}
    if rng.random() < 0.3:
        strategy["failurePolicy"] = rng.choice(("Fail", "Ignore"))
    if rng.random() < 0.4:
        strategy["orderedRecreate"] = True
    if rng.random() < 0.25:
        strategy["forceRecreate"] = True
    if rng.random() < 0.3:
        strategy["terminationGracePeriodSeconds"] = rng.choice((0, 1, 5))
    if rng.random() < 0.45:
        strategy["unreadyGracePeriodSeconds"] = rng.choice((0, 3, 10))
    if rng.random() < 0.35:
        strategy["minStartedSeconds"] = rng.choice((1, 5, 20))
    if strategy:
        result["strategy"] = strategy
    if rng.random() < 0.3:
        result["activeDeadlineSeconds"] = rng.choice((3, 10, 40))
    if rng.random() < 0.4:
        result["ttlSecondsAfterFinished"] = rng.choice((0, 5, 30))
    if rng.random() < 0.05:
        result["containers"][0]["statusContext"] = {"containerID": "containerd://mine", "restartCount": 0}
    if rng.random() < 0.1:
        result["labels"] = {"crr.apps.kruise.io/pod-uid": "mine", "crr.apps.kruise.io/active": "no"}
    return result


def _operations(rng: random.Random, kind: str, length_s: float) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add

    def name() -> str:
        return f"again-{rng.randrange(_NAMES)}"

    def at_once() -> None:
        """Several requests for one pod."""
        pod = rng.randrange(8)
        at = add("ask", name=name(), pod=pod, **_asked(rng))
        for number in range(rng.choice((1, 2))):
            args = {"name": name(), "pod": pod, **_asked(rng)}
            chooser.found.append(Operation(round(at + rng.uniform(0, 4) * number, 2), "ask", args))

    def unanswered() -> None:
        """No agent responds for some time, or before all faults end."""
        at = add("ask", name=name(), pod=rng.randrange(8), **_asked(rng))
        back_at = rng.choice((None, 5.0, 59.0, 70.0))
        for node in range(_NODES):
            chooser.found.append(Operation(round(at - 0.5, 2), "node_down", {"node": node}))
            if back_at is not None:
                chooser.found.append(Operation(round(at + back_at, 2), "node_up", {"node": node}))
        chooser.found.append(Operation(at + 80, "annotate", {"value": 1}))

    for _ in range(rng.choice((1, 2, 4))):
        add("ask", name=name(), pod=rng.randrange(8), **_asked(rng))
    chooser.some_of(
        [
            lambda: add("ask", name=name(), pod=rng.randrange(8), **_asked(rng)),
            lambda: add("ask", name=name(), pod=rng.randrange(8), **_asked(rng)),
            at_once,
            at_once,
            lambda: add("withdraw", name=name()),
            lambda: add("withdraw", name=name()),
            lambda: add("change_request", name=name(), spec={"podName": "another"}),
            lambda: add(
                "change_request", name=name(), metadata={"labels": {"crr.apps.kruise.io/pod-uid": "another"}}
            ),
            lambda: add("hold", pod=rng.randrange(8), seconds=rng.choice((1.0, 10.0, 40.0))),
            lambda: add("create_named_pod", name=f"alone-{rng.randrange(2)}", app="alone"),
            lambda: add("scale", replicas=rng.choice((0, 1, 2, 3))),
            lambda: add("image", tag=rng.choice((1, 2, 3)), sidecar=rng.random() < 0.3),
            *with_pods(chooser)[
                : 4 if kind == "CloneSet" else 3
            ],  # none leaves a StatefulSet: it would keep its name
            *writers(chooser),
            lambda: add("drain", node=rng.randrange(_NODES)),
            *image_faults(chooser, _NODES),
            lambda: add("bad_image", tag=1, how=rng.choice(("never ready", "crash", "slow"))),
        ]
    )
    if rng.random() < 0.15:
        unanswered()
    chooser.maybe_deleted(0.08)
    return chooser.found
