"""Further fields that are set randomly, because no generator sets them: each in one of eight scripts that allow it.

Script ──▶ with_further_fields() ──▶ the same with more fields, selected by the seed

The rules must know each field that is set here, or it must not affect them. Fields without a meaning in a simulation
are left out; tests/simulation/test_fields.py has the reasons.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pykruise.kube.documents import deep_copy
from simulation.script import Script

__all__ = ["with_further_fields"]

Object = dict[str, Any]
Values = Mapping[str, Callable[[random.Random], Any]]
"""Path → a function that draws a value."""

SHARE = 0.12

_LABELS: Object = {"matchLabels": {"app": "web"}}
_APP: Object = {"key": "app", "operator": "In", "values": ["web"]}
_PREFERENCE: Object = {"matchExpressions": [{"key": "sim/pool", "operator": "In", "values": ["a"]}]}
_TOLERATION: Object = {"key": "sim/other", "operator": "Equal", "value": "x", "effect": "NoSchedule"}

TEMPLATE: Values = {
    "metadata.annotations": lambda rng: {"note": f"n{rng.randrange(3)}"},
    "spec.affinity": lambda rng: {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": rng.choice((1, 100)), "preference": _PREFERENCE}
            ]
        }
    },
    "spec.initContainers": lambda _rng: [{"name": "before", "image": "init:1"}],
    "spec.terminationGracePeriodSeconds": lambda rng: rng.choice((0, 5)),
    "spec.tolerations": lambda _rng: [_TOLERATION],
    "spec.topologySpreadConstraints": lambda _rng: [
        {
            "topologyKey": "kubernetes.io/hostname",
            "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": _LABELS,
        }
    ],
}
"""Fields of a pod template, in every kind that has one."""

PRE_DOWNLOAD: Values = {
    "imagePreDownloadParallelism": lambda rng: rng.choice((1, 5)),
    "imagePreDownloadTimeoutSeconds": lambda rng: rng.choice((1, 600)),
    "imagePreDownloadMinUpdatedReadyPods": lambda rng: rng.choice((0, 1, 3)),
}


def _priority(rng: random.Random) -> Object:
    if rng.random() < 0.5:
        return {"orderPriority": [{"orderedKey": "rank"}]}
    selectors = ({"matchLabels": {"app": "web"}}, {"matchExpressions": [_APP]})
    return {"weightPriority": [{"weight": rng.choice((1, 50)), "matchSelector": rng.choice(selectors)}]}


def _selector(_rng: random.Random) -> Any:
    return [_APP]


def _under(prefix: str, values: Values) -> Values:
    return {f"{prefix}.{path}": make for path, make in values.items()}


WORKLOAD: Values = {
    "selector.matchExpressions": _selector,
    "revisionHistoryLimit": lambda rng: rng.choice((0, 1, 2, 20)),
    **_under("template", TEMPLATE),
}
OBJECTS: Mapping[str, Values] = {
    "CloneSet": {
        **WORKLOAD,
        "template.spec.readinessGates": lambda _rng: [{"conditionType": "InPlaceUpdateReady"}],
        "updateStrategy.rollingUpdate.priorityStrategy": _priority,
        "updateStrategy.rollingUpdate.scatterStrategy": lambda _rng: [{"key": "app", "value": "web"}],
        **_under("updateStrategy.rollingUpdate.inPlaceUpdateStrategy", PRE_DOWNLOAD),
    },
    "StatefulSet": {
        **WORKLOAD,
        "serviceName": lambda _rng: "web",
        **_under("updateStrategy.rollingUpdate.inPlaceUpdateStrategy", PRE_DOWNLOAD),
    },
    "DaemonSet": WORKLOAD,
    "BroadcastJob": _under("template", TEMPLATE),
    "AdvancedCronJob": {"timeZone": lambda rng: rng.choice(("UTC", "Etc/UTC"))},
    "SidecarSet": {
        "selector.matchExpressions": _selector,
        "revisionHistoryLimit": lambda rng: rng.choice((2, 20)),
        "updateStrategy.priorityStrategy": _priority,
        "updateStrategy.scatterStrategy": lambda _rng: [{"key": "app", "value": "web"}],
        "volumes": lambda _rng: [{"name": "scratch", "emptyDir": {}}],
        "imagePullSecrets": lambda _rng: [{"name": "registry"}],
        "injectionStrategy.paused": lambda _rng: False,
    },
    "WorkloadSpread": {
        "scheduleStrategy.adaptive.disableSimulationSchedule": lambda rng: rng.random() < 0.5,
    },
    "UnitedDeployment": {
        "selector.matchExpressions": _selector,
        "revisionHistoryLimit": lambda rng: rng.choice((1, 2, 20)),
        **_under(
            "template.cloneSetTemplate.spec.template",
            {"metadata.annotations": TEMPLATE["metadata.annotations"]},
        ),
    },
}
MEMBERS: Mapping[str, Values] = {
    "SidecarSet": {"podInjectPolicy": lambda rng: rng.choice(("BeforeAppContainer", "AfterAppContainer"))},
    "WorkloadSpread": {
        "tolerations": lambda _rng: [_TOLERATION],
        "preferredNodeSelector": lambda _rng: [{"weight": 10, "preference": _PREFERENCE}],
    },
    "UnitedDeployment": {"tolerations": lambda _rng: [_TOLERATION]},
}
"""Fields of each member of the list in LISTS."""
LISTS = {"SidecarSet": "containers", "WorkloadSpread": "subsets", "UnitedDeployment": "topology.subsets"}


def with_further_fields(script: Script, generator: str) -> Script:
    """The script with fields that its generator never sets."""
    rng = random.Random(f"fields-{generator}-{script.seed}")
    return msgspec.structs.replace(script, object=_more(script.object, rng), beside=_more(script.beside, rng))


def _more(document: Object, rng: random.Random) -> Object:
    if not document:
        return document
    more = deep_copy(document)
    kind, spec = more["kind"], more["spec"]
    _set_some(spec, OBJECTS.get(kind, {}), rng)
    if kind in LISTS:
        *above, last = LISTS[kind].split(".")
        holder = spec
        for name in above:
            holder = holder[name]
        for member in holder[last]:
            _set_some(member, MEMBERS[kind], rng)
    return more


def _set_some(spec: Object, values: Values, rng: random.Random) -> None:
    for path, make in values.items():
        is_chosen, value = rng.random() < SHARE, make(rng)
        if not is_chosen:
            continue
        *above, last = path.split(".")
        holder: Any = spec
        for name in above:
            holder = holder.setdefault(name, {}) if name in _MADE else holder.get(name)
            if holder is None:
                break
        else:
            holder.setdefault(last, value)


_MADE = {"metadata", "inPlaceUpdateStrategy", "injectionStrategy", "updateStrategy"}
"""Objects that are created if they are missing; in other missing objects nothing is set."""
