"""A random script: a StatefulSet whose pods return to their nodes, and faults.

seed ──▶ generate() ──▶ Script

A zone never loses its last node, because its pods could not return: the first two nodes keep their labels.
"""

import random
from typing import Any

from simulation.chance import Chooser, kruise_object, scripted
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Operation, Script

__all__ = ["generate"]

_GENERATE = "kruise.io/auto-generate-persistent-pod-state"
POOL, HOST = "sim/pool", "kubernetes.io/hostname"
_PATHS = ("/pods", "/persistentpodstates", "/persistentpodstates", "/statefulsets", "/nodes", "")
_WATCHES = ("/pods", "/pods", "/persistentpodstates", "/persistentpodstates", "/statefulsets", "/nodes")
_NOTHING = {"requiredPersistentTopology": None, "preferredPersistentTopology": None}
_RESERVED: tuple[list[int | str], ...] = ([], [0], [1], ["1-2"], ["0-1", 4])


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"persistentpodstate-{seed}")
    length_s = rng.choice((20.0, 60.0, 180.0))
    nodes = rng.choice((2, 3, 4))
    is_generated = rng.random() < 0.25
    document = _statefulset(rng)
    if is_generated:
        document["metadata"]["annotations"] = {
            name: value for name, value in {_GENERATE: "true", **_asked(rng)}.items() if value is not None
        }
    zones = [Operation(0.0, "label_node", {"node": n, "value": "ab"[n % 2]}) for n in range(nodes)]
    return scripted(
        rng,
        seed,
        kind="persistentpodstate",
        object=document,
        beside={} if is_generated else _persistentpodstate(rng),
        nodes=nodes,
        operations=[*zones, *_operations(rng, length_s, nodes=nodes, is_generated=is_generated)],
        faults=faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES),
    )


def _statefulset(rng: random.Random) -> dict[str, Any]:
    labels = {"app": "web"}
    pod: dict[str, Any] = {"containers": [{"name": "main", "image": "app:1"}]}
    if rng.random() < 0.3:
        term = {"weight": 5, "preference": {"matchExpressions": [{"key": POOL, "operator": "Exists"}]}}
        pod["affinity"] = {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]},
        }
    metadata: dict[str, Any] = {"labels": labels}
    if rng.random() < 0.5:
        metadata["annotations"] = {"address": rng.choice(("10.0.0.1", "10.0.0.2"))}
    spec: dict[str, Any] = {
        "replicas": rng.choice((1, 2, 3, 4, 6)),
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {
                "podUpdatePolicy": rng.choice(("ReCreate", "ReCreate", "InPlaceIfPossible")),
                "maxUnavailable": rng.choice((1, 2, "100%")),
            },
        },
        "template": {"metadata": metadata, "spec": pod},
    }
    if spec["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"] != "ReCreate":
        pod["readinessGates"] = [{"conditionType": "InPlaceUpdateReady"}]
    if rng.random() < 0.3:
        spec["reserveOrdinals"] = rng.choice(_RESERVED)
    return kruise_object("StatefulSet", spec)


def _topology(rng: random.Random) -> dict[str, Any]:
    """The recorded node labels."""
    topology: dict[str, Any] = {}
    if rng.random() < 0.7:
        topology["requiredPersistentTopology"] = {"keys": rng.choice(([POOL], [POOL], [POOL, "sim/none"]))}
    if not topology or rng.random() < 0.5:
        topology["preferredPersistentTopology"] = [
            {"weight": rng.choice((1, 100)), "preference": {"keys": keys}}
            for keys in rng.choice(([[HOST]], [[HOST, POOL]], [["sim/none"], [HOST]]))
        ]
    return topology


def _asked(rng: random.Random) -> dict[str, Any]:
    """Annotations with which a StatefulSet requests a PersistentPodState."""
    return {
        "kruise.io/required-persistent-topology": rng.choice((None, POOL, f"{POOL}, sim/none,")),
        "kruise.io/preferred-persistent-topology": rng.choice((None, HOST, f"{HOST},{POOL}")),
        "kruise.io/persistent-pod-annotations": rng.choice((None, "address")),
    }


def _persistentpodstate(rng: random.Random) -> dict[str, Any]:
    spec = {
        "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"},
        **_topology(rng),
    }
    if rng.random() < 0.4:
        spec["persistentPodAnnotations"] = [{"key": "address"}, {"key": "none"}]
    if rng.random() < 0.6:
        spec["persistentPodStateRetentionPolicy"] = rng.choice(("WhenScaled", "WhenDeleted"))
    return kruise_object("PersistentPodState", spec, name="memory")


def _operations(rng: random.Random, length_s: float, *, nodes: int, is_generated: bool) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add
    asked = [
        lambda: add("remember", **{**_NOTHING, **_topology(rng)}),
        lambda: add("remember", persistentPodStateRetentionPolicy=rng.choice(("WhenScaled", "WhenDeleted"))),
    ]
    if is_generated:
        asked = [
            lambda: add("note", annotations=_asked(rng)),
            lambda: add("note", annotations={_GENERATE: rng.choice(("true", "false", None))}),
        ]
    chooser.some_of(
        [
            lambda: add("scale", replicas=rng.choice((0, 1, 2, 3, 4, 6))),
            lambda: add("scale", replicas=rng.choice((1, 2, 3, 4, 6))),
            lambda: add("reserve", ordinals=rng.choice(_RESERVED)),
            lambda: add("image", tag=rng.choice((1, 2, 3))),
            lambda: add("env", value=rng.choice((1, 2))),
            lambda: add("delete_pod", pod=rng.randrange(8), now=rng.random() < 0.3),
            lambda: add("delete_pod", pod=rng.randrange(8)),
            lambda: add("evict", pod=rng.randrange(8)),
            lambda: add("address", pod=rng.randrange(8), value=rng.choice(("10.0.0.3", "10.0.0.4"))),
            lambda: add("drain", node=rng.randrange(nodes)),
            lambda: add("node_down", node=rng.randrange(nodes)),
            lambda: add("node_lost", node=rng.randrange(nodes)),
            lambda: nodes > 2 and add("label_node", node=rng.randrange(2, nodes), value=rng.choice("ab")),
            lambda: add(
                "bad_image", tag=rng.choice((1, 2)), how=rng.choice(("never ready", "crash", "slow"))
            ),
            *asked,
        ]
    )
    # A changed annotation of a ready pod is recorded only when a pod becomes ready the next time.
    if any(operation.do == "address" for operation in chooser.found):
        chooser.found.append(Operation(length_s + 20, "delete_pod", {"pod": 0}))
    if not is_generated and rng.random() < 0.15:
        at = add("delete_beside")
        if rng.random() < 0.7:
            chooser.found.append(Operation(round(at + rng.uniform(0.5, 30), 2), "create_beside"))
    chooser.maybe_deleted(0.12)
    return chooser.found
