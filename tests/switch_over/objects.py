"""Objects of every kind, as users of OpenKruise have them: every example, every template of a UnitedDeployment.

A release serves the kinds in the versions of its CRDs. An example in v1beta1 is converted to v1alpha1 if the release
serves only that version.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from pykruise.kinds import list_conversions
from pykruise.kube.schemas.conversion import annotate, convert

__all__ = ["Document", "in_served_version", "jobs", "objects_at_rest"]

Document = dict[str, Any]

EXAMPLES: Final = Path(__file__).parents[2] / "examples"

NAMESPACE: Final = "default"

_CLUSTER_WIDE: Final = ("Namespace", "ResourceDistribution", "SidecarSet", "StorageClass", "PriorityClass")

LEFT_OUT: Final[Mapping[str, str]] = {
    "containerrecreaterequest.yaml": "it asks for a pod by a name that a run chooses",
    "ephemeraljob.yaml": "its pods are chosen while it runs",
}
"""Examples that the scenario creates itself, when their pods exist."""


def pods(app: str, *, image: str = "nginx:1") -> Document:
    """A pod template with one container."""
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "main", "image": image}]}}


def united(name: str, template: Document, **spec: Any) -> Document:
    """A UnitedDeployment over two subsets."""
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "UnitedDeployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
            "topology": {"subsets": [{"name": "a", "replicas": 2}, {"name": "b"}]},
            **spec,
        },
    }


def workload(app: str, **spec: Any) -> Document:
    """A template of a workload in a UnitedDeployment."""
    selector = {"matchLabels": {"app": app}}
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"selector": selector, "template": pods(app), **spec},
    }


CLAIM: Final[Document] = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def united_deployments(*, is_flat: bool) -> Iterator[Document]:
    """A UnitedDeployment for each template; CloneSets also with strategies and claims. `is_flat`: as in v1alpha1."""
    in_place = (
        {"type": "InPlaceIfPossible", "maxUnavailable": 1}
        if is_flat
        else {
            "type": "RollingUpdate",
            "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1},
        }
    )
    yield united("ud-cloneset", {"cloneSetTemplate": workload("ud-cloneset")})
    yield united("ud-in-place", {"cloneSetTemplate": workload("ud-in-place", updateStrategy=in_place)})
    yield united("ud-claims", {"cloneSetTemplate": workload("ud-claims", volumeClaimTemplates=[CLAIM])})
    scale = {"maxUnavailable": "50%"}
    yield united("ud-scale", {"cloneSetTemplate": workload("ud-scale", scaleStrategy=scale)})
    yield united("ud-deployment", {"deploymentTemplate": workload("ud-deployment")})
    yield united("ud-statefulset", {"statefulSetTemplate": workload("ud-statefulset", serviceName="")})
    advanced = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    yield united(
        "ud-advanced",
        {
            "advancedStatefulSetTemplate": workload(
                "ud-advanced", updateStrategy=advanced, podManagementPolicy="Parallel"
            )
        },
    )


def workloads_that_change() -> Iterator[Document]:
    """Workloads whose template or size changes during a switch."""
    gate = {"readinessGates": [{"conditionType": "InPlaceUpdateReady"}]}
    in_place = {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1}
    plain = {"cs-recreate": {"maxUnavailable": 1}, "cs-in-place": in_place, "cs-scaled": {}}
    for name, rolling in plain.items():
        yield _workload(
            "CloneSet", name, replicas=5, updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling}
        )
    stateful = _workload("StatefulSet", "sts-rolling", replicas=4, serviceName="sts-rolling")
    stateful["spec"]["template"]["spec"] |= gate
    yield stateful
    yield _workload("DaemonSet", "ds-rolling")


def jobs(served: Mapping[str, frozenset[str]]) -> list[Document]:
    """A BroadcastJob and an ImagePullJob that are created during a switch."""
    template = pods("once", image="busybox:1")
    template["spec"]["restartPolicy"] = "Never"
    policy = {"type": "Always"}
    once = _job("BroadcastJob", "once", template=template, parallelism=2, completionPolicy=policy)
    pulled = _job("ImagePullJob", "pulled", image="nginx:9", parallelism=2, completionPolicy=policy)
    return [jobs for entry in (once, pulled) if (jobs := in_served_version(entry, served)) is not None]


def _job(kind: str, name: str, **spec: Any) -> Document:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def _workload(kind: str, name: str, **spec: Any) -> Document:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": pods(name), **spec},
    }


def examples() -> Iterator[Document]:
    """The documents of all examples, except those that the scenario creates itself."""
    for path in sorted(EXAMPLES.glob("*.yaml")):
        if path.name not in LEFT_OUT:
            for document in yaml.safe_load_all(path.read_text()):
                if document and document["kind"] not in _CLUSTER_WIDE:
                    document["metadata"].setdefault("namespace", NAMESPACE)
                if document and document["kind"] == "AdvancedCronJob":
                    document["spec"]["paused"] = True  # otherwise a full hour may begin during a test
                if document:
                    yield document


def in_served_version(document: Document, served: Mapping[str, frozenset[str]]) -> Document | None:
    """The document in a version that the cluster serves; None: its kind is not served. `served`: versions by kind."""
    kind, version = document["kind"], document["apiVersion"].rpartition("/")[2]
    versions = served.get(kind)
    group = document["apiVersion"].partition("/")[0]
    if versions is None or not group.endswith("kruise.io"):
        return document
    document = {**document, "spec": _with_served_references(document["spec"], served)}
    if version in versions:
        return document
    result = convert(document, f"{group}/{sorted(versions)[0]}", list_conversions())
    for side in ("v1alpha1", "v1beta1"):
        annotate(result, f"pykruise.io/conversion-{side}", None)
    return result


def _with_served_references(value: Any, served: Mapping[str, frozenset[str]]) -> Any:
    """The value with references to workloads in versions that the cluster serves, as its users write them."""
    if isinstance(value, list):
        return [_with_served_references(item, served) for item in value]
    if not isinstance(value, dict):
        return value
    references = {name: _with_served_references(item, served) for name, item in value.items()}
    group, _, version = str(references.get("apiVersion")).rpartition("/")
    versions = served.get(str(references.get("kind")), frozenset())
    if group == "apps.kruise.io" and versions and version not in versions:
        references["apiVersion"] = f"{group}/{sorted(versions)[0]}"
    return references


def objects_at_rest(served: Mapping[str, frozenset[str]]) -> list[Document]:
    """Everything that is created before a switch."""
    is_flat = "v1beta1" not in served.get("UnitedDeployment", frozenset())
    documents = [*examples(), *united_deployments(is_flat=is_flat), *workloads_that_change()]
    return [rest for document in documents if (rest := in_served_version(document, served)) is not None]
