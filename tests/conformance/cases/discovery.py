"""Discovery: the served resources, and their verbs."""

from conformance.builders import crd
from conformance.dsl import case, create, define, get

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def _resources(root: str, *names: str) -> object:
    return get(root, only=("kind", "groupVersion", *(f"resources[name={name}]" for name in names)))


def _access(**attributes: str) -> dict[str, object]:
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }


_HASH = "storageVersionHash"

CASES = [
    case(
        "versions and groups are listed",
        get("/api", only=("kind", "versions")),
        get(
            "/apis",
            only=("kind", "apiVersion", "groups[name=apps]", "groups[name=batch]", "groups[name=policy]"),
        ),
        get("/apis/apps"),
        get("/apis/no.such.group"),
        get("/healthz"),
        get("/readyz"),
        get("/livez"),
    ),
    case(
        "resources are listed with their names and verbs",
        *(
            get(
                f"/{'api' if version == 'v1' else 'apis'}/{version}",
                only=(
                    "kind",
                    "groupVersion",
                    *(
                        f"resources[name={name}].{member}"
                        for name in names.split()
                        for member in (
                            "kind",
                            "namespaced",
                            "singularName",
                            "shortNames",
                            "categories",
                            "verbs",
                            "group",
                            "version",
                        )
                    ),
                ),
            )
            for version, names in (
                (
                    "v1",
                    "bindings configmaps endpoints events namespaces namespaces/finalize namespaces/status",
                ),
                (
                    "v1",
                    "nodes nodes/status persistentvolumeclaims persistentvolumes pods pods/binding pods/log",
                ),
                (
                    "v1",
                    "pods/eviction pods/status pods/resize pods/ephemeralcontainers secrets services",
                ),
                (
                    "apps/v1",
                    "controllerrevisions daemonsets deployments deployments/scale replicasets statefulsets",
                ),
                ("batch/v1", "jobs jobs/status cronjobs"),
                ("policy/v1", "poddisruptionbudgets poddisruptionbudgets/status"),
                ("coordination.k8s.io/v1", "leases"),
                ("storage.k8s.io/v1", "storageclasses"),
                ("rbac.authorization.k8s.io/v1", "roles clusterroles rolebindings clusterrolebindings"),
                ("apiextensions.k8s.io/v1", "customresourcedefinitions"),
                ("authorization.k8s.io/v1", "selfsubjectaccessreviews subjectaccessreviews"),
            )
        ),
    ),
    case(
        "discovery can be had at once",
        get(
            "/apis",
            accept=_AGGREGATED,
            only=("kind", "apiVersion", "items[metadata.name=policy].versions.0.resources.0"),
        ),
        get("/api", accept=_AGGREGATED, only=("kind", "apiVersion", "items.0.versions.0.version")),
    ),
    case(
        "a custom resource is discovered",
        define(
            crd(
                subresources={
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"},
                }
            )
        ),
        get(
            "/apis/$ns.example.com/v1",
            only=(
                "kind",
                "groupVersion",
                *(
                    f"resources[name={name}].{member}"
                    for name in ("widgets", "widgets/status", "widgets/scale")
                    for member in (
                        "kind",
                        "namespaced",
                        "singularName",
                        "shortNames",
                        "categories",
                        "verbs",
                        "group",
                        "version",
                    )
                ),
            ),
        ),
        get("/apis/$ns.example.com"),
    ),
    case(
        "an admin may do everything",
        create(
            "selfsubjectaccessreviews",
            _access(verb="create", resource="pods", namespace="$ns"),
            only=("status.allowed", "kind", "spec"),
        ),
        create(
            "selfsubjectaccessreviews", _access(verb="*", resource="*", group="*"), only=("status.allowed",)
        ),
        create(
            "selfsubjectaccessreviews",
            {"spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}},
            only=("status.allowed",),
        ),
        create("selfsubjectaccessreviews", {"spec": {}}),
        create(
            "selfsubjectaccessreviews",
            {"spec": {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get"}}},
        ),
        create("selfsubjectreviews", {}, only=("kind", "apiVersion")),
        get("selfsubjectaccessreviews"),
    ),
]
