"""Pods: defaults, validation, what may change, and their subresources."""

from typing import Any

from conformance.builders import container, pod
from conformance.dsl import JSON_PATCH, MERGE, based_on, case, create, delete, get, patch, put, table

_LIMITS = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0.5", "memory": "512Mi"}}


def _binding(pod_name: str, node: str, **metadata: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod_name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _runtime(name: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": "h",
        **more,
    }


CASES = [
    case("a pod gets its defaults", create("pods", pod("a")), get("pods/a"), get("pods/a/status")),
    case(
        "everything a container can have gets its defaults",
        create(
            "pods",
            pod(
                "a",
                container(
                    ports=[{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}],
                    env=[
                        {"name": "A", "value": "1"},
                        {"name": "B"},
                        {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                        {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                    ],
                    envFrom=[{"secretRef": {"name": "s"}}],
                    livenessProbe={"httpGet": {"port": 80}},
                    readinessProbe={"tcpSocket": {"port": "dns"}},
                    startupProbe={"exec": {"command": ["x"]}, "periodSeconds": 3},
                    lifecycle={
                        "preStop": {"httpGet": {"port": 80}},
                        "postStart": {"exec": {"command": ["y"]}},
                    },
                    resources=_LIMITS,
                    volumeMounts=[{"name": "v", "mountPath": "/v"}],
                ),
                container("latest", "nginx"),
                container("digest", "nginx@sha256:" + "0" * 64),
                container("tagged", "registry.example.com:5000/a/b:latest"),
                initContainers=[container("init", "x:1"), container("side", "x:1", restartPolicy="Always")],
                volumes=[
                    {"name": "v"},
                    {"name": "c", "configMap": {"name": "c"}},
                    {"name": "s", "secret": {"secretName": "s"}},
                    {"name": "h", "hostPath": {"path": "/x"}},
                    {
                        "name": "d",
                        "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]},
                    },
                    {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
                    {"name": "pvc", "persistentVolumeClaim": {"claimName": "x"}},
                ],
                tolerations=[{"key": "a", "operator": "Exists"}],
                nodeSelector={"a": "b"},
                securityContext={"runAsUser": 1},
                readinessGates=[{"conditionType": "example.com/x"}],
                topologySpreadConstraints=[
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                ],
            ),
        ),
    ),
    case(
        "resources decide the quality of service",
        create(
            "pods",
            pod("a", container(resources={"limits": {"cpu": "1", "memory": "1Gi"}})),
            only=("spec.containers.0.resources", "status.qosClass"),
        ),
        create(
            "pods",
            pod("b", container(resources={"limits": {"cpu": "1"}})),
            only=("spec.containers.0.resources", "status.qosClass"),
        ),
        create(
            "pods",
            pod("c", container(resources={"requests": {"cpu": "1000m", "memory": "1073741824"}})),
            only=("spec.containers.0.resources", "status.qosClass"),
        ),
        create("pods", pod("d"), only=("spec.containers.0.resources", "status.qosClass")),
        create(
            "pods",
            pod("e", container(resources={"limits": {"cpu": 1.5, "memory": "0.5Gi"}})),
            only=("spec.containers.0.resources", "status.qosClass"),
        ),
    ),
    case(
        "a pod must be valid",
        create("pods", pod("a", container("Bad_Name"))),
        create("pods", pod("a", container(image=""))),
        create("pods", pod("a", container(image=" x"))),
        create("pods", {"metadata": {"name": "a"}, "spec": {}}),
        create("pods", {"metadata": {"name": "a"}}),
        create("pods", pod("a", restartPolicy="Sometimes")),
        create("pods", pod("a", dnsPolicy="Nowhere")),
        create("pods", pod("a", terminationGracePeriodSeconds=-1)),
        create("pods", pod("a", activeDeadlineSeconds=0)),
        create("pods", pod("a", container(imagePullPolicy="Rarely"))),
        create("pods", pod("a", hostNetwork=True), only=("spec.hostNetwork", "message")),
        create("pods", pod("b", container(ports=[{"containerPort": 0}, {"containerPort": 70000}]))),
        create(
            "pods", pod("b", container(ports=[{"containerPort": 80, "protocol": "XYZ", "name": "UPPER"}]))
        ),
        create(
            "pods",
            pod(
                "b", container(ports=[{"containerPort": 80, "name": "x"}, {"containerPort": 81, "name": "x"}])
            ),
        ),
        create("pods", pod("b", container(env=[{"name": ""}]))),
        create(
            "pods",
            pod(
                "b",
                container(
                    env=[
                        {"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
                    ]
                ),
            ),
        ),
        create(
            "pods",
            pod(
                "b", container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nothing"}}}])
            ),
        ),
        create("pods", pod("b", container(volumeMounts=[{"name": "none", "mountPath": "/x"}]))),
        create("pods", pod("b", volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}])),
        create("pods", pod("b", volumes=[{"name": "v", "emptyDir": {}, "configMap": {"name": "c"}}])),
        create("pods", pod("b", volumes=[{"name": "v", "configMap": {}}])),
        create("pods", pod("b", container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}))),
        create("pods", pod("b", container(resources={"requests": {"cpu": "-1"}}))),
        create("pods", pod("b", container(resources={"requests": {"widgets": "1"}}))),
        create("pods", pod("b", container(livenessProbe={}))),
        create("pods", pod("b", container(livenessProbe={"httpGet": {"port": 0}, "periodSeconds": -1}))),
        create(
            "pods", pod("b", container(livenessProbe={"exec": {"command": ["x"]}, "successThreshold": 2}))
        ),
        create("pods", pod("b", container(lifecycle={"preStop": {}}))),
        create("pods", pod("b", nodeSelector={"a b": "c"})),
        create("pods", pod("b", tolerations=[{"key": "a", "operator": "Exists", "value": "x"}])),
        create("pods", pod("b", tolerations=[{"operator": "Sometimes"}])),
        create("pods", pod("b", initContainers=[container("main")])),
        create("pods", pod("b", readinessGates=[{"conditionType": "bad type"}])),
        create(
            "pods",
            pod(
                "b",
                topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Maybe"}],
            ),
        ),
        create("pods", pod("b", priority=5)),
        create("pods", pod("b", priorityClassName="no-such-class")),
        create("pods", pod("b", serviceAccountName="Bad Name")),
        create("pods", pod("b", hostname="Bad.Name")),
        create("pods", pod("b", nodeName="Bad Node")),
    ),
    case(
        "affinity must be well formed",
        create(
            "pods",
            pod(
                "a",
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                            ]
                        }
                    },
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 10,
                                "podAffinityTerm": {
                                    "labelSelector": {"matchLabels": {"a": "b"}},
                                    "topologyKey": "zone",
                                },
                            }
                        ]
                    },
                },
            ),
        ),
        create(
            "pods",
            pod(
                "b",
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
                    }
                },
            ),
        ),
        create(
            "pods",
            pod(
                "b",
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]
                        }
                    }
                },
            ),
        ),
        create(
            "pods",
            pod(
                "b",
                affinity={
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"labelSelector": {}, "topologyKey": ""}
                        ]
                    }
                },
            ),
        ),
    ),
    case(
        "of a pod's spec only little may change",
        create("pods", pod("a", container("main", "nginx:1"), container("other", "x:1"))),
        patch("pods/a", {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}),
        patch("pods/a", {"spec": {"containers": [{"name": "main", "image": ""}]}}),
        patch("pods/a", {"spec": {"containers": [{"name": "main", "command": ["x"]}]}}),
        patch("pods/a", {"spec": {"containers": [{"name": "third", "image": "x"}]}}),
        patch("pods/a", {"spec": {"containers": [{"name": "other", "$patch": "delete"}]}}),
        patch("pods/a", {"spec": {"nodeName": "n1"}}),
        patch("pods/a", {"spec": {"restartPolicy": "Never"}}),
        patch("pods/a", {"spec": {"activeDeadlineSeconds": 100}}),
        patch("pods/a", {"spec": {"activeDeadlineSeconds": 200}}),
        patch("pods/a", {"spec": {"activeDeadlineSeconds": 50}}),
        patch("pods/a", {"spec": {"terminationGracePeriodSeconds": 1}}),
        patch("pods/a", {"spec": {"tolerations": [{"key": "new", "operator": "Exists"}]}}),
        patch("pods/a", {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]}}),
        patch("pods/a", {"spec": {"schedulingGates": [{"name": "x.io/gate"}]}}),
        patch("pods/a", {"spec": {"initContainers": [{"name": "i", "image": "x"}]}}),
        patch(
            "pods/a", [{"op": "replace", "path": "/spec/containers/0/image", "value": "nginx:3"}], JSON_PATCH
        ),
        patch("pods/a", {"metadata": {"labels": {"a": "b"}}}),
    ),
    case(
        "a pod's status is written by its endpoint alone",
        create("pods", {**pod("a"), "status": {"phase": "Running", "podIP": "1.2.3.4"}}),
        patch("pods/a", {"status": {"phase": "Running"}}),
        patch(
            "pods/a/status",
            {
                "status": {
                    "phase": "Running",
                    "podIP": "10.1.2.3",
                    "hostIP": "10.9.9.9",
                    "startTime": "2001-01-01T00:00:00Z",
                    "conditions": [
                        {"type": "Ready", "status": "True", "lastTransitionTime": "2001-01-01T00:00:00Z"}
                    ],
                    "containerStatuses": [
                        {
                            "name": "main",
                            "image": "nginx:1",
                            "imageID": "x",
                            "ready": True,
                            "restartCount": 0,
                            "state": {"running": {"startedAt": "2001-01-01T00:00:00Z"}},
                        }
                    ],
                }
            },
        ),
        patch("pods/a/status", {"spec": {"containers": [{"name": "main", "image": "nginx:9"}]}}),
        patch("pods/a/status", {"metadata": {"labels": {"via": "status"}, "annotations": {"via": "status"}}}),
        put(
            "pods/a/status",
            based_on(
                3, {"metadata": {"resourceVersion": None}, "status": {"phase": "Failed", "reason": "Evicted"}}
            ),
        ),
        patch("pods/a/status", {"status": {"qosClass": "Guaranteed"}}, MERGE),
        patch(
            "pods/a/status",
            {
                "status": {
                    "containerStatuses": [
                        {"name": "main", "restartCount": -1, "ready": False, "image": "", "imageID": ""}
                    ]
                }
            },
        ),
        patch("pods/a/status", {"status": {"phase": "Anything"}}),
        patch("pods/a/status", {"status": {"nominatedNodeName": "Bad Name"}}),
    ),
    case(
        "a container that ran to its end does not start again",
        create("pods", pod("a", nodeName="n1", restartPolicy="Never")),
        patch(
            "pods/a/status",
            {
                "status": {
                    "containerStatuses": [
                        {
                            "name": "main",
                            "image": "x",
                            "imageID": "x",
                            "ready": False,
                            "restartCount": 0,
                            "state": {"terminated": {"exitCode": 0}},
                        }
                    ]
                }
            },
        ),
        patch(
            "pods/a/status",
            {
                "status": {
                    "containerStatuses": [
                        {
                            "name": "main",
                            "image": "x",
                            "imageID": "x",
                            "ready": True,
                            "restartCount": 1,
                            "state": {"running": {}, "terminated": None},
                        }
                    ]
                }
            },
        ),
    ),
    case(
        "a pod is resized by its own endpoint",
        create("pods", pod("a", container(resources=_LIMITS))),
        patch(
            "pods/a/resize",
            {
                "spec": {
                    "containers": [
                        {"name": "main", "resources": {"requests": {"cpu": "700m"}, "limits": {"cpu": "2"}}}
                    ]
                }
            },
        ),
        patch("pods/a/resize", {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}),
        patch("pods/a/resize", {"metadata": {"labels": {"a": "b"}}}),
        patch(
            "pods/a/resize",
            {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "9"}}}]}},
        ),
        patch(
            "pods/a/resize",
            {"spec": {"containers": [{"name": "main", "resources": {"limits": None, "requests": None}}]}},
        ),
        patch(
            "pods/a/resize",
            {
                "spec": {
                    "containers": [{"name": "main", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}]
                }
            },
        ),
        patch(
            "pods/a/resize",
            {
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
                        }
                    ]
                }
            },
        ),
        put("pods/a/resize", based_on(2, {"metadata": {"resourceVersion": None}})),
        get("pods/a/resize"),
        get("pods/a"),
    ),
    case(
        "a resize keeps the quality of service",
        create("pods", pod("a", container(resources={"limits": {"cpu": "1", "memory": "1Gi"}}))),
        patch(
            "pods/a/resize",
            {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]}},
        ),
        patch(
            "pods/a/resize",
            {
                "spec": {
                    "containers": [
                        {"name": "main", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}
                    ]
                }
            },
        ),
        create("pods", pod("b")),
        patch(
            "pods/b/resize",
            {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}},
        ),
        patch("pods/none/resize", {"spec": {"containers": []}}),
    ),
    case(
        "an ephemeral container is added by its own endpoint and stays",
        create("pods", pod("a")),
        patch(
            "pods/a/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}},
        ),
        patch(
            "pods/a/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [{"name": "debug", "image": "other"}]}},
        ),
        patch(
            "pods/a/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [{"name": "debug", "$patch": "delete"}]}},
        ),
        patch(
            "pods/a/ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "main", "image": "x"}]}}
        ),
        patch("pods/a", {"spec": {"ephemeralContainers": [{"name": "more", "image": "x"}]}}),
        create("pods", pod("b", ephemeralContainers=[{"name": "x", "image": "x"}])),
    ),
    case(
        "a pod is bound to a node once",
        create("pods", pod("a")),
        create("pods/a/binding", _binding("a", "n1")),
        get("pods/a"),
        create("pods/a/binding", _binding("a", "n2")),
        create("pods/none/binding", _binding("none", "n1")),
        create("pods", pod("b")),
        create("pods/b/binding", {"metadata": {"name": "b"}, "target": {"kind": "Pod", "name": "x"}}),
        create("pods/b/binding", {"metadata": {"name": "b"}, "target": {}}),
        create("pods/b/binding", {"metadata": {"name": "other"}, "target": {"kind": "Node", "name": "n1"}}),
        create("pods/b/binding", _binding("b", "n1", uid="4bd0f1d8-3b4e-4a55-9a10-2b3a7a3f7f65")),
        create("pods/b/binding", _binding("b", "n1", annotations={"a": "b"})),
        get("pods/b"),
        create("bindings", _binding("b", "n1")),
    ),
    case(
        "a pod with scheduling gates waits for them",
        create("pods", pod("a", schedulingGates=[{"name": "x.io/a"}, {"name": "x.io/b"}])),
        create("pods/a/binding", _binding("a", "n1")),
        patch("pods/a", {"spec": {"nodeSelector": {"x": "y"}}}),
        patch("pods/a", {"spec": {"schedulingGates": [{"name": "x.io/a", "$patch": "delete"}]}}),
        patch("pods/a", {"spec": {"schedulingGates": None}}, MERGE),
        patch("pods/a", {"spec": {"nodeSelector": {"z": "y"}}}),
        create("pods", pod("b", nodeName="n1", schedulingGates=[{"name": "x.io/a"}])),
    ),
    case(
        "the log of a pod that runs nowhere is a bad request",
        create("pods", pod("a")),
        get("pods/a/log"),
        get("pods/a/log", container="none"),
        get("pods/none/log"),
    ),
    case(
        "a pod with a runtime class",
        create("pods", pod("nowhere", runtimeClassName="missing")),
        create("pods", pod("paid", overhead={"cpu": "1"})),
        create("/apis/node.k8s.io/v1/runtimeclasses", _runtime("$ns-plain")),
        create("pods", pod("plain", runtimeClassName="$ns-plain")),
        create("pods", pod("plain-paid", runtimeClassName="$ns-plain", overhead={"cpu": "1"})),
        create(
            "/apis/node.k8s.io/v1/runtimeclasses",
            _runtime(
                "$ns-full",
                overhead={"podFixed": {"cpu": "100m", "memory": "64Mi"}},
                scheduling={
                    "nodeSelector": {"runtime": "full"},
                    "tolerations": [{"key": "full", "operator": "Exists"}],
                },
            ),
        ),
        create("pods", pod("full", runtimeClassName="$ns-full")),
        create(
            "pods",
            pod(
                "full-again", runtimeClassName="$ns-full", tolerations=[{"key": "full", "operator": "Exists"}]
            ),
        ),
        create("pods", pod("elsewhere", runtimeClassName="$ns-full", nodeSelector={"runtime": "no"})),
        create("pods", pod("said", runtimeClassName="$ns-full", overhead={"cpu": "100m", "memory": "64Mi"})),
        create("pods", pod("wrong", runtimeClassName="$ns-full", overhead={"cpu": "200m"})),
        table("/apis/node.k8s.io/v1/runtimeclasses/$ns-plain"),
        create("/apis/node.k8s.io/v1/runtimeclasses", {**_runtime("$ns-none"), "handler": ""}),
        create("/apis/node.k8s.io/v1/runtimeclasses", {**_runtime("$ns-odd"), "handler": "A b"}),
        patch("/apis/node.k8s.io/v1/runtimeclasses/$ns-plain", {"handler": "other"}, MERGE),
        delete("/apis/node.k8s.io/v1/runtimeclasses/$ns-plain"),
        patch("pods/plain", {"metadata": {"labels": {"a": "b"}}}),
    ),
]
