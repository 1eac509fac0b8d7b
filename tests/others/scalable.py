"""Workloads of every kind with a scale in every version, for programs that scale, or that look up a pod's controller.

SCALED: kind and version ──▶ app_of("hpa", …), workload("hpa", …)
"""

from typing import Final

from others.client_work import served
from others.cluster import Document

__all__ = ["SCALED", "app_of", "workload"]

SCALED: Final = [
    (crd["spec"]["names"]["kind"], f"{crd['spec']['group']}/{version['name']}")
    for crd, version in served()
    if "scale" in version["subresources"]
]
"""Every kind with a scale, in every version."""


def app_of(prefix: str, kind: str, api_version: str) -> str:
    """Return the name of the workload, which is also the label `app` of its pods."""
    return f"{prefix}-{kind.lower()}-{api_version.rpartition('/')[2]}"


def workload(prefix: str, kind: str, api_version: str, *, replicas: int = 2) -> Document:
    """Return a workload whose pods request memory."""
    app = app_of(prefix, kind, api_version)
    selector = {"matchLabels": {"app": app}}
    container = {"name": "main", "image": "web:1", "resources": {"requests": {"memory": "50Mi"}}}
    template = {
        "metadata": {"labels": {"app": app}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    spec: Document = {"replicas": replicas, "selector": selector, "template": template}
    if kind == "StatefulSet":
        spec |= {"serviceName": app, "podManagementPolicy": "Parallel"}
    if kind == "DaemonSet":
        del spec["replicas"]
    if kind == "UnitedDeployment":
        inner = {"metadata": {"labels": {"app": app}}, "spec": {"selector": selector, "template": template}}
        spec |= {
            "template": {"cloneSetTemplate": inner},
            "topology": {"subsets": [{"name": "a"}, {"name": "b"}]},
        }
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": app}, "spec": spec}
