"""Resources of the API server: group, version, plural and kind, and the URL paths.

A `Resource` is a value that every layer passes to the client; the constants below are the built-in resources that this
project uses. The resources of `apps.kruise.io` are defined with their kinds.
"""

import re
from urllib.parse import quote

import msgspec

from pykruise.kube.cache.remembering import remember
from pykruise.kube.errors import InvalidNameError

__all__ = [
    "CLUSTER_ROLES",
    "CONFIG_MAPS",
    "CONTROLLER_REVISIONS",
    "CRON_JOBS",
    "CUSTOM_RESOURCE_DEFINITIONS",
    "DAEMON_SETS",
    "DEPLOYMENTS",
    "ENDPOINTS",
    "EVENTS",
    "HORIZONTAL_POD_AUTOSCALERS",
    "JOBS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PERSISTENT_VOLUMES",
    "PERSISTENT_VOLUME_CLAIMS",
    "PODS",
    "POD_DISRUPTION_BUDGETS",
    "POD_GROUPS",
    "REPLICA_SETS",
    "RESOURCE_QUOTAS",
    "SECRETS",
    "SERVICES",
    "SERVICE_ACCOUNTS",
    "STATEFUL_SETS",
    "STORAGE_CLASSES",
    "SUBJECT_ACCESS_REVIEWS",
    "WORKLOADS",
    "Resource",
    "collection_of",
    "flaw_of_segment",
    "is_group_part",
    "root_of",
]

_is_plain = re.compile(r"[A-Za-z0-9._~-]+").fullmatch
_group_part = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?").fullmatch


def is_group_part(text: str) -> bool:
    """Whether the text may be the group or the version of an API."""
    return _group_part(text) is not None


def flaw_of_segment(name: str) -> str:
    """Return why the name cannot be part of a path; empty: it can. This is the rule of Kubernetes'
    IsValidPathSegmentName.
    """
    if name in (".", ".."):
        return f"may not be '{name}'"
    for mark in "/%":
        if mark in name:
            return f"may not contain '{mark}'"
    return "" if name.isprintable() else "may not contain control characters"


def _encode_segment(name: str) -> str:
    """Return the name percent-encoded, which changes the names of few objects. Raises InvalidNameError."""
    if _is_plain(name) and name not in (".", ".."):
        return name
    if flaw := flaw_of_segment(name):
        raise InvalidNameError(f"{name[:253]!r} {flaw}")
    return quote(name, safe="")


@remember(entries=1024, longest=128)
def root_of(group: str, version: str = "") -> str:
    """Return the URL prefix of a group-version, or of a group alone. Raises InvalidNameError for invalid ones."""
    for part in (group, version):
        if part and not is_group_part(part):
            raise InvalidNameError(f"{part[:253]!r} is neither an API group nor a version of an API")
    root = f"/apis/{group}" if group else "/api"
    return f"{root}/{version}" if version else root


class Resource(msgspec.Struct, frozen=True):
    """A served resource (Kubernetes' GroupVersionResource, with its kind and scope)."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`v1` for the core group, else `group/version`: the `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """URL prefix of the group-version: `/api/v1` or `/apis/apps/v1`."""
        return root_of(self.group, self.version)

    def format_path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection (no name), the object, or its subresource.

        An empty namespace on a namespaced resource means all namespaces. Raises InvalidNameError for a name that
        cannot be part of a path: an API server decodes `a%2Fb`, and would respond with another object.
        """
        parts = [self.root]
        if self.namespaced and namespace:
            parts += ["namespaces", _encode_segment(namespace)]
        parts.append(_encode_segment(self.plural))
        if name:
            parts.append(_encode_segment(name))
        if subresource:
            parts += map(_encode_segment, subresource.split("/"))
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def collection_of(path: str) -> str:
    """Return the URL path of the collection for the path of an object or subresource; any other path unchanged."""
    parts = path.split("/")
    begin = 3 if parts[1:2] == ["api"] else 4 if parts[1:2] == ["apis"] else len(parts)
    is_namespaced = parts[begin : begin + 1] == ["namespaces"] and len(parts) > begin + 2
    return "/".join(parts[: begin + (3 if is_namespaced else 1)])


CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
EVENTS = Resource("", "v1", "events", "Event")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
SERVICES = Resource("", "v1", "services", "Service")

CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")

STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)

CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)

CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
JOBS = Resource("batch", "v1", "jobs", "Job")
HORIZONTAL_POD_AUTOSCALERS = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
POD_GROUPS = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup")
WORKLOADS = Resource("scheduling.k8s.io", "v1beta1", "workloads", "Workload")
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
