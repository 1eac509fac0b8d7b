"""Objects in other forms: tables as kubectl shows them, metadata alone, YAML."""

from conformance.builders import config_map, container, deployment, labelled, pod
from conformance.dsl import MERGE, case, create, get, patch, raw, table

_META = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_META_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_ONE_OFF = {"restartPolicy": "Never", "containers": [container()]}

CASES = [
    case(
        "pods are shown as a table",
        create("pods", pod("a")),
        create("pods", pod("b", container(), container("other"), nodeName="n1")),
        patch(
            "pods/b/status",
            {
                "status": {
                    "phase": "Running",
                    "podIP": "10.0.0.1",
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses": [
                        {
                            "name": "main",
                            "image": "x",
                            "imageID": "x",
                            "ready": True,
                            "restartCount": 2,
                            "state": {"running": {}},
                        },
                        {
                            "name": "other",
                            "image": "x",
                            "imageID": "x",
                            "ready": False,
                            "restartCount": 0,
                            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        },
                    ],
                }
            },
        ),
        create("pods", pod("c", nodeName="n1")),
        patch("pods/c/status", {"status": {"phase": "Failed", "reason": "Evicted"}}),
        create("pods", pod("d", restartPolicy="Never", nodeName="n1")),
        patch(
            "pods/d/status",
            {
                "status": {
                    "phase": "Succeeded",
                    "containerStatuses": [
                        {
                            "name": "main",
                            "image": "x",
                            "imageID": "x",
                            "ready": False,
                            "restartCount": 0,
                            "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
                        }
                    ],
                }
            },
        ),
        create("pods", pod("e", nodeName="n1", initContainers=[container("i1"), container("i2")])),
        patch(
            "pods/e/status",
            {
                "status": {
                    "phase": "Pending",
                    "initContainerStatuses": [
                        {
                            "name": "i1",
                            "image": "x",
                            "imageID": "x",
                            "ready": False,
                            "restartCount": 0,
                            "state": {"running": {}},
                        }
                    ],
                }
            },
        ),
        raw("DELETE", "pods/c"),
        table("pods"),
        table("pods/a"),
        table("pods", includeObject="None"),
        table("pods", includeObject="Object", limit="1"),
        table("pods", labelSelector="none"),
    ),
    case(
        "workloads are shown as tables",
        create("deployments", deployment(replicas=3)),
        patch(
            "deployments/web/status",
            {
                "status": {
                    "replicas": 3,
                    "updatedReplicas": 2,
                    "readyReplicas": 1,
                    "availableReplicas": 1,
                    "unavailableReplicas": 2,
                }
            },
        ),
        table("deployments"),
        create("replicasets", deployment(kind="ReplicaSet", replicas=2)),
        table("replicasets"),
        create("statefulsets", deployment(kind="StatefulSet", serviceName="s", replicas=2)),
        table("statefulsets"),
        create("daemonsets", deployment(kind="DaemonSet")),
        table("daemonsets"),
        create(
            "jobs", {"metadata": {"name": "j"}, "spec": {"completions": 3, "template": {"spec": _ONE_OFF}}}
        ),
        table("jobs"),
        create(
            "cronjobs",
            {
                "metadata": {"name": "c"},
                "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": _ONE_OFF}}}},
            },
        ),
        table("cronjobs"),
        create("controllerrevisions", {"metadata": {"name": "r"}, "revision": 3}),
        table("controllerrevisions"),
    ),
    case(
        "other kinds are shown as tables",
        create("configmaps", config_map("a", x="1", y="2")),
        table("configmaps"),
        create("secrets", {"metadata": {"name": "a"}, "data": {"x": "AQ=="}}),
        table("secrets"),
        create(
            "services",
            {
                "metadata": {"name": "s"},
                "spec": {
                    "ports": [{"port": 80}, {"name": "x", "port": 53, "protocol": "UDP"}],
                    "clusterIP": "None",
                    "selector": {"a": "b"},
                },
            },
        ),
        table("services"),
        create("serviceaccounts", {"metadata": {"name": "a"}}),
        table("serviceaccounts/a"),
        create(
            "persistentvolumeclaims",
            {
                "metadata": {"name": "c"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "x",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        ),
        table("persistentvolumeclaims"),
        create(
            "poddisruptionbudgets",
            {"metadata": {"name": "b"}, "spec": {"minAvailable": "50%", "selector": {}}},
        ),
        table("poddisruptionbudgets"),
        create("leases", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}),
        table("leases"),
        create(
            "nodes",
            {
                "metadata": {"name": "$ns", "labels": {"node-role.kubernetes.io/worker": ""}},
                "spec": {"unschedulable": True},
            },
        ),
        table("nodes/$ns"),
        table("namespaces/$ns"),
        create(
            "events",
            {
                "metadata": {"name": "e"},
                "involvedObject": {"kind": "Pod", "name": "p", "namespace": "$ns"},
                "reason": "R",
                "message": "M",
                "type": "Normal",
                "source": {"component": "c"},
                "count": 3,
            },
        ),
        table("events"),
        create(
            "endpoints",
            {
                "metadata": {"name": "e"},
                "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}],
            },
        ),
        table("endpoints"),
        create("roles", {"metadata": {"name": "r"}, "rules": []}),
        table("roles"),
        create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}),
        table("resourcequotas"),
        create("storageclasses", {"metadata": {"name": "$ns"}, "provisioner": "x.io/y"}),
        table("storageclasses/$ns"),
    ),
    case(
        "the answer to a write can be a table or metadata too",
        raw("POST", "configmaps", config_map("a", x="1"), headers={"accept": _META}),
        raw("PATCH", "configmaps/a", {"data": {"x": "2"}}, headers={"accept": _META, "content-type": MERGE}),
        raw(
            "POST",
            "configmaps",
            config_map("b"),
            headers={"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"},
        ),
        raw("DELETE", "configmaps/b", headers={"accept": _META}),
    ),
    case(
        "metadata can be had alone",
        create("configmaps", labelled(config_map("a", x="1"), l="v")),
        create("configmaps", config_map("b")),
        get("configmaps/a", accept=_META),
        get("configmaps", accept=_META_LIST),
        get("configmaps", accept=_META_LIST, limit="1"),
        get("configmaps", accept=_META),
        get("configmaps/a", accept=_META_LIST),
        get("configmaps/none", accept=_META),
    ),
]
