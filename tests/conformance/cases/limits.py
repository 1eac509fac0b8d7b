"""ResourceQuotas and LimitRanges: rejections, defaults, and the charge of quotas.

A real server reads quotas from its own cache, which gets a charge a moment later. So the cases have pauses.
"""

from typing import Any

from conformance.dsl import MERGE, case, create, get, patch, pause, table

_STATUS = ("status",)


def _quota(name: str = "q", *, spec: Any = None, **hard: str) -> dict[str, Any]:
    limits = {key.replace("_", "."): value for key, value in hard.items()}
    return {"metadata": {"name": name}, "spec": {"hard": limits, **(spec or {})}}


def _counted(used: dict[str, str], hard: dict[str, str], name: str = "q") -> tuple[Any, ...]:
    """Write the status as the quota controller would, and wait."""
    status = {"status": {"hard": hard, "used": used}}
    return patch(f"resourcequotas/{name}/status", status, MERGE), pause()


def _pod(
    name: str, *, init: Any = (), requests: Any = None, limits: Any = None, **spec: Any
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": "x"}
    resources = {kind: of for kind, of in (("requests", requests), ("limits", limits)) if of}
    if resources:
        container["resources"] = resources
    whole = {"containers": [container], **spec}
    if init:
        whole["initContainers"] = list(init)
    return {"metadata": {"name": name}, "spec": whole}


def _claim(name: str, storage: str, **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": storage}}
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec},
    }


def _service(name: str, kind: str = "ClusterIP", ports: int = 1) -> dict[str, Any]:
    listed = [{"name": f"p{number}", "port": 80 + number} for number in range(ports)]
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": listed}}


def _range(*limits: dict[str, Any], name: str = "l") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"limits": list(limits)}}


def _brief(name: str = "q") -> Any:
    return get(f"resourcequotas/{name}", only=_STATUS)


_CPU = {"cpu": "500m"}

CASES = [
    case(
        "a quota without a status limits nothing yet",
        create("resourcequotas", _quota(pods="0")),
        create("configmaps", {"metadata": {"name": "a"}}, only=("kind",)),
        create("pods", _pod("a"), only=("kind",)),
        _brief(),
    ),
    case(
        "pods are charged to a quota until it is exceeded",
        create("resourcequotas", _quota(pods="2", requests_cpu="1")),
        *_counted({"pods": "0", "requests.cpu": "0"}, {"pods": "2", "requests.cpu": "1"}),
        create("pods", _pod("a", requests=_CPU), only=("kind",)),
        pause(),
        _brief(),
        create("pods", _pod("big", requests={"cpu": "600m"})),
        create("pods", _pod("b", requests=_CPU), only=("kind",), dryRun="All"),
        _brief(),
        create("pods", _pod("b", requests=_CPU), only=("kind",)),
        pause(),
        create("pods", _pod("c", requests=_CPU)),
        _brief(),
        table("resourcequotas"),
    ),
    case(
        "a quota that is about cpu or memory makes containers say what they need",
        create("resourcequotas", _quota(limits_cpu="1", memory="1Gi")),
        *_counted({"limits.cpu": "0", "memory": "0"}, {"limits.cpu": "1", "memory": "1Gi"}),
        create("pods", _pod("a", init=[{"name": "first", "image": "x"}])),
        create("pods", _pod("b", limits={"cpu": "1", "memory": "512Mi"}), only=("kind",)),
        pause(),
        _brief(),
        create("pods", _pod("c", limits={"cpu": "1500m", "memory": "1Gi"})),
    ),
    case(
        "a quota whose use is not known refuses what it limits",
        create("resourcequotas", _quota(pods="2", requests_memory="1Gi")),
        *_counted({"pods": "0"}, {"pods": "2", "requests.memory": "1Gi"}),
        create("pods", _pod("a", requests={"memory": "1Mi"})),
        create("services", _service("s"), only=("kind",)),
    ),
    case(
        "quotas with scopes are about some pods only",
        create("resourcequotas", _quota("best", spec={"scopes": ["BestEffort"]}, pods="0")),
        *_counted({"pods": "0"}, {"pods": "0"}, "best"),
        create("resourcequotas", _quota("ends", spec={"scopes": ["Terminating"]}, pods="0")),
        *_counted({"pods": "0"}, {"pods": "0"}, "ends"),
        create("pods", _pod("a")),
        create("pods", _pod("b", requests=_CPU, activeDeadlineSeconds=5)),
        create("pods", _pod("c", requests=_CPU), only=("kind",)),
    ),
    case(
        "a pod that gets a deadline comes under another quota",
        create("resourcequotas", _quota("ends", spec={"scopes": ["Terminating"]}, pods="0")),
        *_counted({"pods": "0"}, {"pods": "0"}, "ends"),
        create("pods", _pod("a"), only=("kind",)),
        patch("pods/a", {"spec": {"activeDeadlineSeconds": 5}}, MERGE),
    ),
    case(
        "a quota can be about pods of a priority",
        create("priorityclasses", {"metadata": {"name": "$ns"}, "value": 7}),
        create(
            "resourcequotas",
            _quota(
                spec={
                    "scopeSelector": {
                        "matchExpressions": [
                            {"scopeName": "PriorityClass", "operator": "In", "values": ["$ns"]}
                        ]
                    }
                },
                pods="0",
            ),
        ),
        *_counted({"pods": "0"}, {"pods": "0"}),
        create("pods", _pod("a", priorityClassName="$ns")),
        create("pods", _pod("b"), only=("kind",)),
    ),
    case(
        "objects are counted",
        create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"count/secrets": "1"}}}),
        *_counted(
            {"count/secrets": "0", "configmaps": "0", "count/deployments.apps": "0"},
            {"count/secrets": "1", "configmaps": "1", "count/deployments.apps": "0"},
        ),
        create("secrets", {"metadata": {"name": "a"}}, only=("kind",)),
        pause(),
        create("secrets", {"metadata": {"name": "b"}}),
        create("configmaps", {"metadata": {"name": "a"}}, only=("kind",)),
        create("configmaps", {"metadata": {"generateName": "b-"}}, only=("reason", "code")),
        create(
            "deployments",
            {
                "metadata": {"name": "d"},
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                },
            },
        ),
        create("events", {"metadata": {"name": "e"}, "involvedObject": {"namespace": "$ns"}}, only=("kind",)),
        _brief(),
    ),
    case(
        "services are counted by what they take",
        create("resourcequotas", _quota(services="3", services_nodeports="1", services_loadbalancers="0")),
        *_counted(
            {"services": "0", "services.nodeports": "0", "services.loadbalancers": "0"},
            {"services": "3", "services.nodeports": "1", "services.loadbalancers": "0"},
        ),
        create("services", _service("a"), only=("kind",)),
        pause(),
        create("services", _service("b", "NodePort", ports=2)),
        create("services", _service("c", "LoadBalancer")),
        patch("services/a", {"spec": {"type": "NodePort"}}, MERGE, only=("kind",)),
        pause(),
        create("services", _service("d", "NodePort")),
        _brief(),
    ),
    case(
        "claims are counted by storage and class",
        create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"requests.storage": "5Gi"}}}),
        *_counted(
            {"requests.storage": "0", "gold.storageclass.storage.k8s.io/requests.storage": "0"},
            {"requests.storage": "5Gi", "gold.storageclass.storage.k8s.io/requests.storage": "1Gi"},
        ),
        create("persistentvolumeclaims", _claim("a", "2Gi", storageClassName="iron"), only=("kind",)),
        pause(),
        create("persistentvolumeclaims", _claim("b", "2Gi", storageClassName="gold")),
        create("persistentvolumeclaims", _claim("c", "4Gi", storageClassName="iron")),
        create("persistentvolumeclaims", _claim("d", "1Gi", storageClassName="gold"), only=("kind",)),
        pause(),
        _brief(),
    ),
    case(
        "a quota must be valid",
        create("resourcequotas", _quota(nonsense="1")),
        create("resourcequotas", _quota(pods="-1")),
        create("resourcequotas", _quota(pods="1.5")),
        create("resourcequotas", _quota(spec={"scopes": ["Some"]}, pods="1"), only=("reason", "code")),
        create("resourcequotas", _quota(spec={"scopes": ["BestEffort"]}, cpu="1"), only=("reason", "code")),
        create(
            "resourcequotas",
            _quota(spec={"scopes": ["BestEffort", "NotBestEffort"]}, pods="1"),
            only=("reason", "code"),
        ),
        create(
            "resourcequotas",
            _quota(
                spec={
                    "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}
                },
                pods="1",
            ),
        ),
        create("resourcequotas", _quota(pods="1")),
        patch("resourcequotas/q", {"spec": {"hard": {"pods": "3"}}}, MERGE),
        patch("resourcequotas/q", {"spec": {"scopes": ["BestEffort"]}}, MERGE, only=("reason", "code")),
    ),
    case(
        "a limit range gives containers what they do not say",
        create(
            "limitranges",
            _range(
                {
                    "type": "Container",
                    "default": {"cpu": "1", "memory": "1Gi"},
                    "defaultRequest": {"cpu": "250m"},
                }
            ),
        ),
        create("pods", _pod("a")),
        create("pods", _pod("b", requests={"cpu": "100m"}, limits={"memory": "2Gi"})),
        create("pods", _pod("c", init=[{"name": "first", "image": "x"}])),
    ),
    case(
        "a limit range forbids what is too small, too large or too far apart",
        create(
            "limitranges",
            _range(
                {
                    "type": "Container",
                    "min": {"cpu": "100m"},
                    "max": {"cpu": "2"},
                    "maxLimitRequestRatio": {"cpu": "4"},
                }
            ),
        ),
        get("limitranges/l", only=("spec",)),
        create("pods", _pod("a", requests={"cpu": "50m"}, limits={"cpu": "100m"})),
        create("pods", _pod("b", requests={"cpu": "1"}, limits={"cpu": "3"})),
        create("pods", _pod("c", requests={"cpu": "100m"}, limits={"cpu": "1"})),
        create("pods", _pod("d", requests={"cpu": "0"}, limits={"cpu": "1"}), only=("reason", "code")),
        create("pods", _pod("e", requests={"cpu": "500m"}, limits={"cpu": "1"}), only=("kind",)),
    ),
    case(
        "a limit range can be about pods as a whole",
        create("limitranges", _range({"type": "Pod", "max": {"memory": "1Gi"}, "min": {"cpu": "1"}})),
        create("pods", _pod("a", limits={"cpu": "1"})),
        create("pods", _pod("b", limits={"memory": "512Mi", "cpu": "500m"})),
        create("pods", _pod("c", limits={"memory": "1Gi", "cpu": "1"}), only=("kind",)),
        create(
            "pods",
            _pod(
                "d",
                limits={"memory": "512Mi", "cpu": "1"},
                init=[{"name": "i", "image": "x", "resources": {"limits": {"memory": "2Gi", "cpu": "1"}}}],
            ),
        ),
    ),
    case(
        "a limit range can be about claims",
        create("limitranges", _range({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}})),
        create("limitranges", _range({"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}}, name="m")),
        create("persistentvolumeclaims", _claim("a", "512Mi")),
        create("persistentvolumeclaims", _claim("b", "3Gi")),
        create("persistentvolumeclaims", _claim("c", "2Gi"), only=("kind",)),
    ),
    case(
        "a limit range must be valid",
        create("limitranges", _range({"type": "Some", "max": {"cpu": "1"}})),
        create("limitranges", _range({"type": "Container", "max": {"gold": "1"}})),
        create(
            "limitranges", _range({"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}})
        ),
        create("limitranges", _range({"type": "PersistentVolumeClaim", "max": {"cpu": "1"}})),
        create("limitranges", _range({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}})),
        create("limitranges", _range({"type": "Container", "min": {"cpu": "2"}, "default": {"cpu": "1"}})),
        create("limitranges", _range({"type": "Container", "default": {"cpu": "2"}, "max": {"cpu": "1"}})),
        create("limitranges", _range({"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}})),
        create(
            "limitranges", _range({"type": "Pod", "max": {"cpu": "1"}}, {"type": "Pod", "min": {"cpu": "1"}})
        ),
    ),
]
