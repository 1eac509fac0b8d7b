"""Deletion: finalizers, propagation, grace, preconditions."""

from conformance.builders import config_map, deployment, pod, with_
from conformance.dsl import MERGE, based_on, case, create, delete, get, patch, put

CASES = [
    case(
        "an object with a finalizer stays until the finalizer is gone",
        create("configmaps", with_(config_map("a"), finalizers=["x.io/a", "x.io/b"])),
        delete("configmaps/a"),
        get("configmaps/a"),
        delete("configmaps/a"),
        patch("configmaps/a", {"metadata": {"finalizers": ["x.io/a", "x.io/b", "x.io/c"]}}, MERGE),
        patch("configmaps/a", {"data": {"x": "1"}}, MERGE),
        patch("configmaps/a", {"metadata": {"finalizers": ["x.io/a"]}}, MERGE),
        patch("configmaps/a", {"metadata": {"deletionTimestamp": None}}, MERGE),
        patch("configmaps/a", {"metadata": {"finalizers": []}}, MERGE),
        get("configmaps/a"),
    ),
    case(
        "a PUT without finalizers lets a deleted object go",
        create("configmaps", with_(config_map("a"), finalizers=["x.io/a"])),
        delete("configmaps/a"),
        put("configmaps/a", based_on(2, {"metadata": {"finalizers": None}})),
        put("configmaps/a", config_map("a")),
    ),
    case(
        "background deletion removes at once",
        create("deployments", deployment()),
        delete("deployments/web", propagationPolicy="Background"),
        get("deployments/web"),
        create("replicasets", deployment(kind="ReplicaSet")),
        delete("replicasets/web"),
    ),
    case(
        "foreground deletion waits by a finalizer",
        create("deployments", deployment()),
        delete("deployments/web", propagationPolicy="Foreground"),
        get("deployments/web"),
        delete("deployments/web", propagationPolicy="Orphan"),
        delete("deployments/web", propagationPolicy="Background"),
        get("deployments/web"),
    ),
    case(
        "orphaning deletion waits by a finalizer",
        create("deployments", deployment()),
        delete("deployments/web", {"propagationPolicy": "Orphan"}),
        get("deployments/web"),
        patch("deployments/web", {"metadata": {"finalizers": None}}, MERGE),
        get("deployments/web"),
        create("configmaps", config_map("a")),
        delete("configmaps/a", {"orphanDependents": True}),
        create("configmaps", config_map("b")),
        delete("configmaps/b", {"orphanDependents": False}),
    ),
    case(
        "propagation finalizers of the object itself decide when the request does not",
        create("configmaps", with_(config_map("a"), finalizers=["orphan"])),
        delete("configmaps/a"),
        create("configmaps", with_(config_map("b"), finalizers=["foregroundDeletion"])),
        delete("configmaps/b"),
        create("configmaps", with_(config_map("c"), finalizers=["foregroundDeletion", "x.io/a"])),
        delete("configmaps/c", propagationPolicy="Background"),
    ),
    case(
        "preconditions of a deletion must hold",
        create("configmaps", config_map("a")),
        delete("configmaps/a", {"preconditions": {"uid": "4bd0f1d8-3b4e-4a55-9a10-2b3a7a3f7f65"}}),
        delete("configmaps/a", {"preconditions": {"resourceVersion": "1"}}),
        delete(
            "configmaps/a",
            {
                "preconditions": {
                    "uid": "${1.metadata.uid}",
                    "resourceVersion": "${1.metadata.resourceVersion}",
                }
            },
        ),
    ),
    case(
        "delete options must be delete options",
        create("configmaps", config_map("a")),
        delete("configmaps/a", {"kind": "ConfigMap", "apiVersion": "v1"}),
        delete(
            "configmaps/a", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Sideways"}
        ),
        delete("configmaps/a", {"gracePeriodSeconds": -5}),
        delete("configmaps/a", {"gracePeriodSeconds": "x"}),
        delete("configmaps/a", "not json"),
        delete("configmaps/a", {"kind": "DeleteOptions", "apiVersion": "v1", "unknown": 1}),
    ),
    case(
        "a pod that is on no node is removed at once",
        create("pods", pod("a")),
        delete("pods/a"),
        get("pods/a"),
        create("pods", pod("b")),
        delete("pods/b", gracePeriodSeconds="60"),
    ),
    case(
        "a pod on a node gets its time of grace",
        create("pods", pod("a", nodeName="n1")),
        delete("pods/a"),
        get("pods/a"),
        delete("pods/a", gracePeriodSeconds="60"),
        delete("pods/a", gracePeriodSeconds="10"),
        patch("pods/a", {"metadata": {"labels": {"a": "b"}}}),
        delete("pods/a", gracePeriodSeconds="0"),
        get("pods/a"),
    ),
    case(
        "a pod's own grace is its deletion's",
        create("pods", pod("a", nodeName="n1", terminationGracePeriodSeconds=5)),
        delete("pods/a"),
        create("pods", pod("b", nodeName="n1", terminationGracePeriodSeconds=0)),
        delete("pods/b"),
        create("pods", pod("c", nodeName="n1")),
        delete("pods/c", {"gracePeriodSeconds": 1}),
        create("pods", pod("d", nodeName="n1")),
        patch("pods/d/status", {"status": {"phase": "Succeeded"}}),
        delete("pods/d"),
    ),
    case(
        "a pod with a finalizer is deleted in two steps",
        create("pods", with_(pod("a", nodeName="n1"), finalizers=["x.io/a"])),
        delete("pods/a"),
        delete("pods/a", gracePeriodSeconds="0"),
        patch("pods/a", {"metadata": {"finalizers": None}}, MERGE),
        get("pods/a"),
        create("pods", with_(pod("b"), finalizers=["x.io/a"])),
        delete("pods/b"),
    ),
    case(
        "deleting answers with the object or with a status, by kind",
        create("services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
        delete("services/s"),
        create("secrets", {"metadata": {"name": "s"}}),
        delete("secrets/s"),
        create("serviceaccounts", {"metadata": {"name": "s"}}),
        delete("serviceaccounts/s"),
        create("leases", {"metadata": {"name": "s"}}),
        delete("leases/s"),
        create("controllerrevisions", {"metadata": {"name": "s"}, "revision": 1}),
        delete("controllerrevisions/s"),
        create(
            "persistentvolumeclaims",
            {
                "metadata": {"name": "s"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            },
        ),
        delete("persistentvolumeclaims/s"),
    ),
    case(
        "a job orphans nothing by default",
        create(
            "jobs",
            {
                "metadata": {"name": "j"},
                "spec": {
                    "template": {
                        "spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": "x"}]}
                    }
                },
            },
        ),
        delete("jobs/j"),
    ),
]
