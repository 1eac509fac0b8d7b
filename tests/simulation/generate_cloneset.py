"""A script by chance: a CloneSet, what happens to it, and what goes wrong meanwhile.

seed ──▶ generate() ──▶ Script

Seeds come in moods, so that not every run drowns in everything at once: calm ones, where rules bite hardest,
are as frequent as wild ones.
"""

import random
from typing import Any

from simulation.faults_by_chance import faults_by_chance
from simulation.script import Deed, Fault, Script

__all__ = ["generate"]

_PATHS = ("/pods", "/clonesets", "/controllerrevisions", "/persistentvolumeclaims", "")
_WATCHES = ("/pods", "/pods", "/clonesets", "/controllerrevisions", "/persistentvolumeclaims")


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"simulation-{seed}")
    document = _cloneset(rng)
    length_s = rng.choice((20.0, 60.0, 180.0))
    deeds, faults = (
        _deeds(rng, document, length_s),
        faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES),
    )
    if rng.random() < 0.06:
        more_deeds, more_faults = _recovery_unseen(rng)
        deeds, faults = [*deeds, *more_deeds], [*faults, *more_faults]
    deeds, faults = sorted(deeds, key=lambda deed: deed.at), sorted(faults, key=lambda fault: fault.at)
    return Script(
        seed=seed,
        object=document,
        nodes=rng.choice((2, 3, 4)),
        deeds=tuple(deeds),
        faults=tuple(faults),
        latency_s=rng.choice((0.005, 0.02, 0.2)),
        hook_s=rng.choice((0.5, 3.0, 10.0)),
        kubelet={
            "start_s": rng.choice((0.2, 1.0, 5.0)),
            "ready_s": rng.choice((0.0, 0.5, 4.0)),
            "stop_s": rng.choice((0.1, 1.0, 8.0)),
        },
    )


def _cloneset(rng: random.Random) -> dict[str, Any]:
    containers = [{"name": "main", "image": "app:1"}]
    if rng.random() < 0.2:
        containers.append({"name": "side", "image": "app:1"})
    labels = {"app": "web"}
    rolling: dict[str, Any] = {
        "podUpdatePolicy": rng.choice(("ReCreate", "InPlaceIfPossible", "InPlaceIfPossible", "InPlaceOnly"))
    }
    if rng.random() < 0.8:
        rolling["maxUnavailable"] = rng.choice((1, 1, 2, "20%", "40%", "100%", "12.5%"))
    if rolling["podUpdatePolicy"] != "InPlaceOnly" and rng.random() < 0.4:
        rolling["maxSurge"] = rng.choice((1, 2, "30%"))
        if rng.random() < 0.3:
            rolling["maxUnavailable"] = rng.choice((1, "10%"))
    if rng.random() < 0.35:
        rolling["partition"] = rng.choice((1, 2, 3, "50%", "99%", "100%"))
    if rolling["podUpdatePolicy"] != "ReCreate" and rng.random() < 0.3:
        rolling["inPlaceUpdateStrategy"] = {"gracePeriodSeconds": rng.choice((0, 5, 30))}
    spec: dict[str, Any] = {
        "replicas": rng.choice((1, 2, 3, 4, 5, 6, 8)),
        "selector": {"matchLabels": {"app": "web"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
    }
    if rng.random() < 0.2:
        spec["minReadySeconds"] = rng.choice((2, 10))
    if rng.random() < 0.2:
        spec["scaleStrategy"] = {"maxUnavailable": rng.choice((1, 2, "50%"))}
    if rng.random() < 0.25:
        spec["volumeClaimTemplates"] = [_claim("data")]
        spec.setdefault("scaleStrategy", {})["enablePVCReuse"] = rng.random() < 0.5
    lifecycle: dict[str, Any] = {}
    if rng.random() < 0.2:
        lifecycle["preDelete"] = {"labelsHandler": {"hook/delete": "true"}}
        labels["hook/delete"] = "true"
    if rng.random() < 0.2:
        lifecycle["inPlaceUpdate"] = {"labelsHandler": {"hook/update": "true"}}
        labels["hook/update"] = "true"
    if lifecycle:
        spec["lifecycle"] = lifecycle
    if rng.random() < 0.2:
        spec["progressDeadlineSeconds"] = 30
    spec["template"] = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": {"name": "web"},
        "spec": spec,
    }


def _claim(name: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": spec}


def _deeds(rng: random.Random, document: dict[str, Any], length_s: float) -> list[Deed]:
    found: list[Deed] = []
    begin_s = rng.choice((0.0, 15.0))

    def add(do: str, **args: Any) -> float:
        at = round(begin_s + rng.uniform(0, length_s), 2)
        found.append(Deed(at, do, args))
        return at

    rest = [
        lambda: add("scale", replicas=rng.choice((0, 1, 2, 3, 4, 6, 8))),
        lambda: add("scale", replicas=rng.choice((2, 3, 4, 5, 7))),
        lambda: add("image", tag=rng.choice((1, 2, 3)), sidecar=rng.random() < 0.3),
        lambda: add("image", tag=rng.choice((1, 2))),
        lambda: add("env", value=rng.choice((1, 2))),
        lambda: add("rolling", partition=rng.choice((0, 0, 1, 2, 4, "50%", "100%"))),
        lambda: add("rolling", paused=True),
        lambda: add("rolling", maxUnavailable=rng.choice((1, 2, "50%"))),
        lambda: add("rolling", maxSurge=rng.choice((0, 1, 2))),
        lambda: add("rolling", podUpdatePolicy=rng.choice(("ReCreate", "InPlaceIfPossible"))),
        lambda: add("limit_scaling", limit=rng.choice((None, 1, 2))),
        lambda: add("list_to_delete", pods=[rng.randrange(8) for _ in range(rng.choice((1, 2)))]),
        lambda: add("annotate", value=rng.randrange(9)),
        lambda: add("mark", pod=rng.randrange(8)),
        lambda: add("mark", pod=rng.randrange(8)),
        lambda: add("delete_pod", pod=rng.randrange(8), now=rng.random() < 0.3),
        lambda: add("delete_pod", pod=rng.randrange(8)),
        lambda: add("evict", pod=rng.randrange(8)),
        lambda: add("relabel", pod=rng.randrange(8)),
        lambda: add("cost", pod=rng.randrange(8), cost=rng.choice((-5, 10))),
        lambda: add("touch", pod=rng.randrange(8), times=rng.choice((3, 20))),
        lambda: add("stale_condition", pod=rng.randrange(8)),
        lambda: add("drain", node=rng.randrange(4)),
        lambda: add("node_down", node=rng.randrange(4)),
        lambda: add("node_lost", node=rng.randrange(4)),
        lambda: add(
            "bad_image", tag=rng.choice((2, 3)), how=rng.choice(("never ready", "pull", "crash", "slow"))
        ),
    ]
    for _ in range(rng.choice((1, 2, 3, 5, 8))):
        rng.choice(rest)()
    for deed in tuple(found):
        later = round(deed.at + rng.uniform(1, 40), 2)
        if deed.do == "rolling" and deed.args.get("paused") and rng.random() < 0.7:
            found.append(Deed(later, "rolling", {"paused": False}))
        elif deed.do == "drain" and rng.random() < 0.7:
            found.append(Deed(later, "uncordon", deed.args))
        elif deed.do == "node_down" and rng.random() < 0.7:
            found.append(Deed(later, "node_up", deed.args))
        elif deed.do == "bad_image" and rng.random() < 0.5:
            found.append(Deed(later, "cure"))
    if rng.random() < 0.12:
        at = add("delete_set", policy=rng.choice(("Background", "Foreground", "Orphan")))
        if rng.random() < 0.6:
            found.append(Deed(at + rng.uniform(0.5, 30), "create_set"))
    if rng.random() < 0.07:
        at = add("strategy", type="OnDelete")
        found.append(Deed(round(at + 5, 2), "image", {"tag": rng.choice((1, 2, 3))}))
    return found


def _recovery_unseen(rng: random.Random) -> tuple[list[Deed], list[Fault]]:
    """Pods come back into service while the watch lags, and just then somebody wants some of them gone."""
    at = round(rng.uniform(8, 20), 2)
    pods = rng.sample(range(8), 3)
    deeds = [
        Deed(at, "bad_image", {"tag": 1, "how": "never ready"}),
        Deed(at + 2, "cure"),
        Deed(at + 3.5, "list_to_delete", {"pods": pods}),
    ]
    return deeds, [Fault(at + 1.5, "delay", "/pods", 8, 5.0)]
