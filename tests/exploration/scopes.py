"""The small worlds of each kind: their objects, the change by a person, and the possible faults.

kind, pods ──▶ scopes() ──▶ Scopes: small ones, each with one additional event; or a large one with all events

A kind defines an object with this number of pods (or nodes), the initial change, and further operations of a person.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from exploration.world import QUIET_S, Scope
from pykruise.testing.simulation.network import REQUEST_FAULTS
from simulation.chance import kruise_object
from simulation.script import Operation, Script

__all__ = ["KINDS", "SMALL_FAULTS", "TEMPLATE", "Object", "scopes", "workload"]

Object = dict[str, Any]

SMALL_FAULTS = ("conflict", "answer lost")
LARGE_FAULTS = tuple(
    kind for kind in REQUEST_FAULTS if kind not in ("slow", "late effect", "no answer", "webhook timeout")
)
"""Faults that do not delay a request."""


class Small(msgspec.Struct, frozen=True):
    """The smallest change of an object of one kind. `operations`: further operations."""

    name: str
    script: Script
    begin: Operation
    operations: tuple[Operation, ...] = ()
    before: tuple[Operation, ...] = ()
    """Operations before the exploration begins."""
    settle_s: float = QUIET_S
    quiet_s: float = QUIET_S
    has_clock: bool = False


def scopes(kind: str, *, pods: int = 2, is_large: bool = False) -> list[Scope]:
    """Scopes of a kind: small ones, or large ones."""
    return [scope for small in KINDS[kind](pods) for scope in (_large(small) if is_large else _small(small))]


def _small(small: Small) -> list[Scope]:
    plain = _scope(small, small.name)
    replace = msgspec.structs.replace
    return [
        *(
            replace(plain, name=f"{small.name}, {_words(operation)}", operations=(operation,))
            for operation in small.operations
        ),
        *(replace(plain, name=f"{small.name}, {fault}", faults=(fault,)) for fault in SMALL_FAULTS),
        replace(plain, name=f"{small.name}, hand-over", hand_overs=1),
        replace(plain, name=f"{small.name}, a watch breaks", breaks=1),
    ]


def _large(small: Small) -> list[Scope]:
    plain = _scope(small, small.name)
    large = msgspec.structs.replace(plain, lag=2, are_answers_apart=True)
    return [
        *(
            msgspec.structs.replace(large, name=f"{small.name}, {_words(operation)}", operations=(operation,))
            for operation in small.operations
        ),
        msgspec.structs.replace(large, name=f"{small.name}, faults", faults=LARGE_FAULTS),
        msgspec.structs.replace(large, name=f"{small.name}, hand-over", hand_overs=1),
        msgspec.structs.replace(large, name=f"{small.name}, a watch breaks", breaks=1),
    ]


def _scope(small: Small, name: str) -> Scope:
    return Scope(
        name=name,
        script=small.script,
        before=small.before,
        begin=small.begin,
        lag=1,
        settle_s=small.settle_s,
        quiet_s=small.quiet_s,
        has_clock=small.has_clock,
    )


def _words(operation: Operation) -> str:
    return " ".join([operation.do, *(str(value) for value in operation.args.values())])


def _do(do: str, **args: Any) -> Operation:
    return Operation(0.0, do, args)


IMAGE, BACK = _do("image", tag=2), _do("image", tag=1)
GONE, MARKED = _do("delete_pod", pod=0), _do("mark", pod=0)
TEMPLATE: Object = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "app:1"}]},
}


def workload(kind: str, pods: int, rolling: Object, **spec: Any) -> Object:
    """A workload of this number of pods, called web. Fields whose value is None are left out."""
    whole = {
        "replicas": pods,
        "selector": {"matchLabels": {"app": "web"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, **rolling}},
        "template": TEMPLATE,
        **spec,
    }
    return kruise_object(kind, {name: value for name, value in whole.items() if value is not None})


def _clonesets(pods: int) -> list[Small]:
    operations = (_do("scale", replicas=pods - 1), _do("scale", replicas=pods + 1), GONE, MARKED, BACK)

    def small(name: str, begin: Operation = IMAGE, *, rolling: Object, **spec: Any) -> Small:
        document = workload("CloneSet", pods, rolling, **spec)
        return Small(f"CloneSet {name}", Script(seed=1, object=document, nodes=1), begin, operations)

    hooked = {"inPlaceUpdate": {"labelsHandler": {"hook": "on"}}}
    template = {**TEMPLATE, "metadata": {"labels": {"app": "web", "hook": "on"}}}
    return [
        small("in place", rolling={"podUpdatePolicy": "InPlaceIfPossible"}),
        small("recreated", rolling={"podUpdatePolicy": "ReCreate", "partition": 1}),
        small(
            "surge",
            rolling={"podUpdatePolicy": "ReCreate", "maxSurge": 1, "maxUnavailable": 0, "partition": 1},
        ),
        small("scaled", _do("scale", replicas=pods + 1), rolling={}),
        small(
            "hooked",
            rolling={"podUpdatePolicy": "InPlaceIfPossible"},
            lifecycle=hooked,
            template=template,
            scaleStrategy={"maxUnavailable": 1},
        ),
    ]


def _statefulsets(pods: int) -> list[Small]:
    operations = (_do("scale", replicas=pods - 1), _do("scale", replicas=pods + 1), GONE, BACK)

    def small(name: str, begin: Operation = IMAGE, *, rolling: Object, **spec: Any) -> Small:
        document = workload("StatefulSet", pods, rolling, serviceName="web", **spec)
        return Small(
            f"StatefulSet {name}",
            Script(seed=1, kind="statefulset", object=document, nodes=1),
            begin,
            operations,
        )

    hooked = {**TEMPLATE, "metadata": {"labels": {"app": "web", "hook": "on"}}}
    return [
        small("in order", rolling={"podUpdatePolicy": "ReCreate", "partition": 1}),
        small(
            "parallel",
            rolling={"podUpdatePolicy": "ReCreate", "partition": 1},
            podManagementPolicy="Parallel",
        ),
        small(
            "with preDelete scaled down",
            _do("scale", replicas=0),
            rolling={},
            lifecycle={"preDelete": {"labelsHandler": {"hook": "on"}, "markPodNotReady": True}},
            template=hooked,
        ),
    ]


def _daemonsets(pods: int) -> list[Small]:
    operations = (GONE, BACK, _do("taint", node=0, effect="NoExecute"))

    def small(name: str, *, rolling: Object) -> Small:
        document = workload("DaemonSet", pods, rolling, replicas=None)
        script = Script(seed=1, kind="daemonset", object=document, nodes=pods)
        return Small(f"DaemonSet {name}", script, IMAGE, operations)

    return [
        small("recreated", rolling={"rollingUpdateType": "Standard"}),
        small("surge", rolling={"rollingUpdateType": "Standard", "maxSurge": 1, "maxUnavailable": 0}),
    ]


def _sidecarsets(pods: int) -> list[Small]:
    document = workload("CloneSet", pods, {"podUpdatePolicy": "ReCreate"})
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "containers": [{"name": "log", "image": "log:1"}],
        "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": 1},
    }
    script = Script(
        seed=1,
        kind="sidecarset",
        object=document,
        beside=kruise_object("SidecarSet", spec, name="log"),
        nodes=1,
    )
    begin = _do("sidecar", field="image", value="log:2")
    operations = (GONE, _do("sidecar", field="image", value="log:1"), _do("sidecar_strategy", paused=True))
    return [Small("SidecarSet", script, begin, operations)]


def _workloadspreads(pods: int) -> list[Small]:
    document = workload("CloneSet", pods, {"podUpdatePolicy": "ReCreate"})

    def subset(name: str, zone: str) -> Object:
        term = {"matchExpressions": [{"key": "sim/pool", "operator": "In", "values": [zone]}]}
        return {"name": name, "requiredNodeSelector": term}

    spec = {
        "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"},
        "subsets": [{**subset("first", "a"), "maxReplicas": max(pods - 1, 1)}, subset("second", "b")],
    }
    script = Script(
        seed=1,
        kind="workloadspread",
        object={**document, "spec": {**document["spec"], "replicas": 0}},
        beside=kruise_object("WorkloadSpread", spec, name="spread"),
        nodes=2,
    )
    zones = tuple(_do("label_node", node=node, value="ab"[node]) for node in range(2))
    return [
        Small("WorkloadSpread", script, _do("scale", replicas=pods), (GONE, _do("scale", replicas=1)), zones)
    ]


def _broadcastjobs(pods: int) -> list[Small]:
    spec = {
        "paused": True,
        "parallelism": 1,
        "completionPolicy": {"type": "Always"},
        "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}},
    }
    script = Script(seed=1, kind="broadcastjob", object=kruise_object("BroadcastJob", spec), nodes=pods)
    operations = (GONE, _do("join", number=0), _do("spec", paused=True))
    return [Small("BroadcastJob", script, _do("spec", paused=False), operations[:2])]


def _budgets(pods: int) -> list[Small]:
    document = workload("CloneSet", pods, {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": pods})
    target = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"}
    budget = kruise_object("PodUnavailableBudget", {"targetRef": target, "maxUnavailable": 1}, name="pub")
    script = Script(
        seed=1,
        kind="podunavailablebudget of CloneSet",
        object=document,
        beside={**budget, "apiVersion": "policy.kruise.io/v1beta1"},
        nodes=1,
    )
    return [Small("PodUnavailableBudget", script, _do("evict", pod=0), (_do("evict", pod=1), GONE))]


def _uniteddeployments(pods: int) -> list[Small]:
    labels = {"app": "web"}
    inner = workload("CloneSet", pods, {"podUpdatePolicy": "InPlaceIfPossible"})["spec"]
    inner.pop("replicas")

    def subset(name: str, zone: str) -> Object:
        term = {"matchExpressions": [{"key": "sim/pool", "operator": "In", "values": [zone]}]}
        return {"name": name, "nodeSelectorTerm": term}

    spec = {
        "replicas": pods,
        "selector": {"matchLabels": labels},
        "template": {"cloneSetTemplate": {"metadata": {"labels": labels}, "spec": inner}},
        "topology": {"subsets": [subset("first", "a"), subset("second", "b")]},
    }
    script = Script(seed=1, kind="uniteddeployment", object=kruise_object("UnitedDeployment", spec), nodes=2)
    zones = tuple(_do("label_node", node=node, value="ab"[node]) for node in range(2))
    operations = (_do("scale", replicas=pods + 1), _do("delete_workload", number=0))
    return [Small("UnitedDeployment", script, _do("united_image", tag=2), operations, zones)]


def _cronjobs(_pods: int) -> list[Small]:
    pod = {"spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}}
    spec = {
        "schedule": "*/10 * * * *",
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 1,
        "template": {"jobTemplate": {"spec": {"template": pod}}},
    }
    script = Script(seed=1, kind="advancedcronjob", object=kruise_object("AdvancedCronJob", spec), nodes=0)
    operations = (_do("end_child", number=0, how="Complete"), _do("delete_child", number=0))
    return [
        Small(
            "AdvancedCronJob",
            script,
            _do("annotate", value=1),
            operations,
            settle_s=530.0,
            quiet_s=90.0,
            has_clock=True,
        )
    ]


def _distributions(pods: int) -> list[Small]:
    spec = {
        "resource": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "copied"},
            "data": {"a": "1"},
        },
        "targets": {"namespaceSelector": {"matchLabels": {"team": "a"}}},
    }
    script = Script(
        seed=1, kind="resourcedistribution", object=kruise_object("ResourceDistribution", spec), nodes=0
    )
    namespaces = tuple(_do("create_namespace", name=f"team-{number}", team="a") for number in range(pods))
    operations = (
        _do("write_copy", number=0, data={"a": "3"}),
        _do("delete_copy", number=0),
        _do("disown_copy", number=0),
        _do("label_namespace", name="team-0", team=None),
        _do("delete_namespace", name="team-0"),
        _do("spec", resource={"data": {"a": "1"}}),
    )
    begin = _do("spec", resource={"data": {"a": "2"}})
    return [Small("ResourceDistribution", script, begin, operations, namespaces)]


def _ephemeraljobs(pods: int) -> list[Small]:
    container = {
        "name": "look",
        "image": "tool:1",
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePolicy": "File",
    }
    spec = {
        "paused": True,
        "ttlSecondsAfterFinished": 5,
        "parallelism": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"ephemeralContainers": [container]},
    }
    job = {**kruise_object("EphemeralJob", spec), "apiVersion": "apps.kruise.io/v1alpha1"}
    script = Script(seed=1, kind="ephemeraljob", object=job, nodes=1)
    there = tuple(_do("create_named_pod", name=f"pod-{number}", app="web") for number in range(pods))
    operations = (
        GONE,
        _do("create_named_pod", name="late", app="web"),
        _do("label_pod", pod=0, labels={"app": "another"}),
        _do("debug", pod=0, container="look"),
        _do("spec", paused=True),
    )
    begin = _do("spec", paused=False)
    return [Small("EphemeralJob", script, begin, operations, there, has_clock=True)]


def _pull_jobs(pods: int) -> list[Small]:
    operations = (
        _do("spec", parallelism=pods),
        _do("join", number=0),
        _do("leave", node=0),
        _do("create_job", name="other", image="app:1"),
        _do("delete_set"),
    )
    return [_pulling("ImagePullJob", {"image": "app:1"}, operations, pods)]


def _list_pull_jobs(pods: int) -> list[Small]:
    images = [f"app:{number}" for number in range(pods)]
    operations = (
        _do("spec", images=["app:0", "app:new"]),
        _do("spec", pullPolicy={"backoffLimit": 1}),
        _do("delete_pull_job", number=0),
    )
    return [_pulling("ImageListPullJob", {"images": images}, operations, 1)]


ENTRIES_GO_S = 1_000.0
"""Seconds after which a NodeImage has removed the entry of a deleted job."""


def _pulling(kind: str, what: Object, operations: tuple[Operation, ...], nodes: int) -> Small:
    spec = {
        "parallelism": 1,
        "completionPolicy": {"type": "Always"},
        "pullPolicy": {"timeoutSeconds": 10, "backoffLimit": 0},
        **what,
    }
    script = Script(seed=1, kind=kind.lower(), object=kruise_object(kind, spec), nodes=nodes)
    return Small(kind, script, _do("create_set"), operations, quiet_s=ENTRIES_GO_S, has_clock=True)


def _states(pods: int) -> list[Small]:
    target = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"}
    spec = {"targetRef": target, "requiredPersistentTopology": {"keys": ["sim/pool"]}}
    script = Script(
        seed=1,
        kind="persistentpodstate",
        object=workload("StatefulSet", pods, {"podUpdatePolicy": "ReCreate"}, serviceName="web"),
        beside=kruise_object("PersistentPodState", spec, name="memory"),
        nodes=2,
    )
    zones = tuple(_do("label_node", node=node, value="ab"[node]) for node in range(2))
    operations = (
        _do("scale", replicas=pods - 1),
        _do("remember", requiredPersistentTopology={"keys": ["sim/none"]}),
    )
    return [Small("PersistentPodState", script, GONE, operations, zones)]


def _recreations(pods: int) -> list[Small]:
    def ask(name: str) -> Operation:
        return _do("ask", name=name, pod=0, containers=[{"name": "main"}], ttlSecondsAfterFinished=5)

    script = Script(
        seed=1,
        kind="containerrecreaterequest of CloneSet",
        object=workload("CloneSet", pods, {"podUpdatePolicy": "InPlaceIfPossible"}),
        nodes=1,
    )
    operations = (GONE, IMAGE, _do("withdraw", name="again"), ask("another"))
    return [Small("ContainerRecreateRequest", script, ask("again"), operations, has_clock=True)]


def _markers(pods: int) -> list[Small]:
    probe = {
        "name": "idle",
        "containerName": "main",
        "probe": {"exec": {"command": ["/idle.sh"]}},
        "podConditionType": "sim.io/idle",
        "markerPolicy": [{"state": "Succeeded", "labels": {"idle": "yes"}}],
    }
    spec = {"selector": {"matchLabels": {"app": "web"}}, "probes": [probe]}
    script = Script(
        seed=1,
        kind="podprobemarker",
        object=workload("CloneSet", pods, {"podUpdatePolicy": "ReCreate"}),
        beside={
            **kruise_object("PodProbeMarker", spec, name="marker"),
            "apiVersion": "apps.kruise.io/v1alpha1",
        },
        nodes=1,
    )
    begin = _do("change_shown", name="marker", podConditionType="sim.io/other")
    operations = (
        GONE,
        _do("label_pod", pod=0, labels={"app": "another"}),
        _do("delete_marker", name="marker"),
        _do("delete_node_probes", node=0),
    )
    return [Small("PodProbeMarker", script, begin, operations)]


KINDS: Mapping[str, Callable[[int], list[Small]]] = {
    "cloneset": _clonesets,
    "statefulset": _statefulsets,
    "daemonset": _daemonsets,
    "sidecarset": _sidecarsets,
    "workloadspread": _workloadspreads,
    "broadcastjob": _broadcastjobs,
    "podunavailablebudget": _budgets,
    "uniteddeployment": _uniteddeployments,
    "advancedcronjob": _cronjobs,
    "resourcedistribution": _distributions,
    "ephemeraljob": _ephemeraljobs,
    "imagepulljob": _pull_jobs,
    "imagelistpulljob": _list_pull_jobs,
    "persistentpodstate": _states,
    "containerrecreaterequest": _recreations,
    "podprobemarker": _markers,
}
