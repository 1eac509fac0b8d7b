"""A random script: a CloneSet whose pods are probed for markers, and faults.

seed ──▶ generate() ──▶ Script

Each marker has its own keys, because the result of two markers for one label is not specified. The name of one marker
ends with the name of another.
"""

import random
from typing import Any

from simulation.chance import Chooser, image_faults, kruise_object, scripted, with_pods, writers
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Operation, Script

__all__ = ["generate"]

_PATHS = ("/pods", "/pods", "/podprobemarkers", "/nodepodprobes", "/nodepodprobes", "")
_WATCHES = ("/pods", "/pods", "/podprobemarkers", "/nodepodprobes", "/nodepodprobes", "/nodes")
_MARKERS = ("a", "xa")
_NAMES = ("idle", "warm", "busy")
_NODES = 3
_TYPES = ("sim.io/idle", "sim.io/idle", "sim.io/warm", "sim.io/busy")
"""Two markers may want the same."""


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"podprobemarker-{seed}")
    length_s = rng.choice((20.0, 60.0, 120.0))
    return scripted(
        rng,
        seed,
        kind="podprobemarker",
        object=_cloneset(rng),
        beside=_marker(rng, _MARKERS[0]),
        nodes=_NODES,
        operations=_operations(rng, length_s),
        faults=faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES),
    )


def _cloneset(rng: random.Random) -> dict[str, Any]:
    labels = {"app": "web", **({"tier": "a"} if rng.random() < 0.5 else {})}
    containers: list[dict[str, Any]] = [{"name": "main", "image": "app:1"}]
    if rng.random() < 0.7:
        containers[0]["ports"] = [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]
    if rng.random() < 0.4:
        containers.append({"name": "side", "image": "app:1"})
    rolling = {
        "podUpdatePolicy": rng.choice(("ReCreate", "InPlaceIfPossible", "InPlaceIfPossible")),
        "maxUnavailable": rng.choice((1, 2, "100%")),
    }
    spec = {
        "replicas": rng.choice((1, 2, 3, 4)),
        "selector": {"matchLabels": {"app": "web"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
    }
    return kruise_object("CloneSet", spec)


def _marker(rng: random.Random, name: str) -> dict[str, Any]:
    tier = {"key": "tier", "operator": rng.choice(("Exists", "DoesNotExist"))}
    app = {"key": "app", "operator": "In", "values": ["web", "another-app"]}
    selector = rng.choice(
        (
            {"matchLabels": {"app": "web"}},
            {"matchLabels": {"tier": "a"}},
            {"matchLabels": {"app": "web"}, "matchExpressions": [tier]},
            {"matchExpressions": [app]},
        )
    )
    document = kruise_object(
        "PodProbeMarker", {"selector": selector, "probes": _probes(rng, name)}, name=name
    )
    return document | {"apiVersion": "apps.kruise.io/v1alpha1"}


def _probes(rng: random.Random, marker: str) -> list[dict[str, Any]]:
    """One probe, or two."""
    probes = [_probe(rng, marker, name) for name in rng.sample(_NAMES, rng.choice((1, 1, 2)))]
    if len(probes) > 1 and probes[0].get("podConditionType") == probes[1].get("podConditionType"):
        probes.pop()
    return probes


def _probe(rng: random.Random, marker: str, name: str) -> dict[str, Any]:
    probe: dict[str, Any] = {
        "name": name,
        "containerName": rng.choice(("main", "main", "main", "side")),
        "probe": _check(rng),
    }
    if rng.random() < 0.6:
        probe["podConditionType"] = rng.choice(_TYPES)
    if "podConditionType" not in probe or rng.random() < 0.6:
        states = rng.choice((["Succeeded"], ["Failed"], ["Succeeded", "Failed"], ["Succeeded", "Failed"]))
        probe["markerPolicy"] = [_policy(rng, f"{marker}.sim.io/{name}", state) for state in states]
    return probe


def _policy(rng: random.Random, key: str, state: str) -> dict[str, Any]:
    policy: dict[str, Any] = {"state": state}
    if rng.random() < 0.7:
        policy["labels"] = {key: state.lower()}
        if rng.random() < 0.3:
            policy["labels"][f"{key}.{state}"] = "yes"
    if "labels" not in policy or rng.random() < 0.4:
        policy["annotations"] = {key: state, f"{key}.{state}": "yes"}
    return policy


def _check(rng: random.Random) -> dict[str, Any]:
    """The check of a container."""
    headers = [{"name": "Accept", "value": "text/plain"}]
    port = rng.choice((80, "web", "web", "8081", "none"))
    result: dict[str, Any] = dict(
        rng.choice(
            (
                {"exec": {"command": ["/idle.sh"]}},
                {"exec": {"command": ["/idle.sh", "--now"]}},
                {"httpGet": {"path": "/idle", "port": port}},
                {"httpGet": {"path": "/idle", "port": port, "scheme": "HTTPS", "httpHeaders": headers}},
                {"tcpSocket": {"port": port}},
                {"grpc": {"port": 9000, "service": "idle"}},
            )
        )
    )
    if rng.random() < 0.03:  # refused
        result = {"httpGet": {"path": "/idle", "port": 80, "host": "elsewhere"}}
    if rng.random() < 0.03:
        result = {"tcpSocket": {"port": 80, "host": "elsewhere"}}
    for field, values in (
        ("periodSeconds", (1, 2, 5, 10)),
        ("failureThreshold", (1, 2, 3)),
        ("successThreshold", (1, 2)),
        ("initialDelaySeconds", (1, 5)),
        ("timeoutSeconds", (1, 3)),
        ("terminationGracePeriodSeconds", (5,)),
    ):
        if rng.random() < 0.4:
            result[field] = rng.choice(values)
    return result


def _operations(rng: random.Random, length_s: float) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add

    def changed() -> None:
        name = rng.choice(_MARKERS)
        add("change_marker", name=name, probes=_probes(rng, name))

    def shown() -> None:
        name = rng.choice(_MARKERS)
        probe = _probe(rng, name, "shown")
        add(
            "change_shown",
            name=name,
            podConditionType=probe.get("podConditionType"),
            markerPolicy=probe.get("markerPolicy"),
        )

    def failing() -> None:
        name = rng.choice(("*", "a#*", "*#idle", "*#warm"))
        at = add("fail_probe", probe=name, after_s=rng.choice((0.0, 5.0)))
        if rng.random() < 0.6:
            chooser.found.append(Operation(round(at + rng.uniform(1, 30), 2), "fix_images"))

    chooser.some_of(
        [
            lambda: add("create_marker", document=_marker(rng, rng.choice(_MARKERS))),
            lambda: add("create_marker", document=_marker(rng, rng.choice(_MARKERS))),
            changed,
            changed,
            shown,
            shown,
            lambda: add("delete_marker", name=rng.choice(_MARKERS)),
            lambda: add("delete_marker", name=rng.choice(_MARKERS)),
            failing,
            failing,
            lambda: add("label_pod", pod=rng.randrange(8), labels={"tier": rng.choice(("a", None))}),
            lambda: add("label_pod", pod=rng.randrange(8), labels={"tier": rng.choice(("a", None))}),
            lambda: add("strip", pod=rng.randrange(8), label=f"{rng.choice(_MARKERS)}.sim.io/idle"),
            lambda: add("delete_node_probes", node=rng.randrange(_NODES)),
            lambda: add("scale", replicas=rng.choice((0, 1, 2, 3, 4))),
            lambda: add("image", tag=rng.choice((1, 2, 3))),
            *with_pods(chooser),
            *writers(chooser),
            lambda: add("drain", node=rng.randrange(_NODES)),
            lambda: add("join", number=rng.randrange(2)),
            lambda: add("leave", node=rng.randrange(1, _NODES)),  # one stays for the pods
            *image_faults(chooser, _NODES),
            lambda: add("bad_image", tag=1, how=rng.choice(("never ready", "crash"))),
        ]
    )
    if rng.random() < 0.4:
        chooser.found.append(
            Operation(rng.choice((0.5, 5.0)), "create_marker", {"document": _marker(rng, "xa")})
        )
    chooser.maybe_deleted(0.08)
    return chooser.found
