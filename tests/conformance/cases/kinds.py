"""The other built-in kinds: defaults, validation, immutability."""

from conformance.builders import config_map
from conformance.dsl import MERGE, based_on, case, create, delete, get, patch, put


def _service(name: str = "s", **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}], **spec},
    }


def _claim(name: str = "c", **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
    }


def _volume(**spec: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "$ns"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
            **spec,
        },
    }


def _webhook(**more: object) -> dict[str, object]:
    return {
        "name": "x.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [
            {
                "apiGroups": ["none.example.com"],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["x"],
            }
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


CASES = [
    case(
        "a config map's keys must be keys, and an immutable one stays",
        create("configmaps", config_map("a", **{"a b": "x"})),
        create("configmaps", {**config_map("a", x="1"), "binaryData": {"x": "AQ=="}}),
        create("configmaps", {**config_map("a", x="1"), "immutable": True}),
        patch("configmaps/a", {"data": {"x": "2"}}),
        patch("configmaps/a", {"immutable": False}),
        patch("configmaps/a", {"metadata": {"labels": {"a": "b"}}}),
    ),
    case(
        "a secret has a type that stays and data in base64",
        create("secrets", {"metadata": {"name": "a"}, "stringData": {"x": "text"}, "data": {"y": "AQID"}}),
        patch("secrets/a", {"stringData": {"z": "more"}}),
        patch("secrets/a", {"type": "other"}),
        create("secrets", {"metadata": {"name": "b"}, "type": "kubernetes.io/dockerconfigjson"}),
        create("secrets", {"metadata": {"name": "b"}, "type": "kubernetes.io/tls", "data": {}}),
        create("secrets", {"metadata": {"name": "b"}, "type": "kubernetes.io/service-account-token"}),
        create("secrets", {"metadata": {"name": "b"}, "immutable": True, "data": {"x": "AQ=="}}),
        patch("secrets/b", {"data": {"x": "Ag=="}}),
        get("secrets", fieldSelector="type=Opaque", only=("items.0.metadata.name", "items.1.metadata.name")),
    ),
    case(
        "a service gets its defaults and an address",
        create("services", _service()),
        create("services", _service("headless", clusterIP="None", selector={"a": "b"})),
        create("services", _service("node", type="NodePort")),
        create(
            "services",
            {"metadata": {"name": "ext"}, "spec": {"type": "ExternalName", "externalName": "example.com"}},
        ),
        create("services", _service("lb", type="LoadBalancer")),
        patch("services/s", {"spec": {"selector": {"x": "y"}}}),
        patch("services/s", {"spec": {"clusterIP": "10.0.0.250"}}),
        patch("services/s", {"spec": {"type": "NodePort"}}),
        patch("services/s", {"spec": {"type": "ClusterIP"}}),
        delete("services/s"),
    ),
    case(
        "a service that becomes an external name loses its addresses",
        create("services", _service(type="NodePort")),
        patch("services/s", {"spec": {"type": "ExternalName"}}),
        patch("services/s", {"spec": {"type": "ExternalName", "externalName": "example.com"}}),
        patch("services/s", {"spec": {"clusterIP": "None"}}),
    ),
    case(
        "a service may only have what the cluster has",
        create("services", _service(type="NodePort", ports=[{"port": 80, "nodePort": 80}])),
        create("services", _service(type="NodePort", ports=[{"port": 80, "nodePort": 32768}])),
        create("services", _service(ipFamilyPolicy="RequireDualStack")),
        create("services", _service(ipFamilyPolicy="PreferDualStack")),
        patch("services/s", {"spec": {"ipFamilyPolicy": "RequireDualStack"}}),
    ),
    case(
        "a service must be valid",
        create("services", _service(ports=[])),
        create("services", _service(ports=[{"port": 0}])),
        create("services", _service(ports=[{"port": 80}, {"port": 81}])),
        create("services", _service(ports=[{"name": "a", "port": 80}, {"name": "a", "port": 81}])),
        create("services", _service(ports=[{"name": "a", "port": 80}, {"name": "b", "port": 80}])),
        create("services", _service(ports=[{"port": 80, "protocol": "X"}])),
        create("services", _service(ports=[{"port": 80, "targetPort": "UPPER_"}])),
        create("services", _service(type="Sideways")),
        create("services", _service(type="ExternalName")),
        create("services", _service(clusterIP="nonsense")),
        create("services", _service(sessionAffinity="Maybe")),
        create("services", _service(selector={"a b": "c"})),
    ),
    case(
        "a claim gets its defaults and keeps its spec",
        create("persistentvolumeclaims", _claim(storageClassName="x")),
        patch("persistentvolumeclaims/c", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
        patch("persistentvolumeclaims/c", {"spec": {"accessModes": ["ReadWriteMany"]}}),
        patch("persistentvolumeclaims/c", {"spec": {"storageClassName": "y"}}),
        patch("persistentvolumeclaims/c/status", {"status": {"phase": "Bound"}}),
        create("persistentvolumeclaims", _claim("d", accessModes=[])),
        create("persistentvolumeclaims", _claim("d", accessModes=["Sideways"])),
        create("persistentvolumeclaims", _claim("d", resources={})),
        create("persistentvolumeclaims", _claim("d", resources={"requests": {"storage": "0"}})),
        create("persistentvolumeclaims", _claim("d", volumeMode="Maybe")),
    ),
    case(
        "a volume gets its defaults and keeps its source",
        create("persistentvolumes", _volume()),
        patch("persistentvolumes/$ns", {"spec": {"hostPath": {"path": "/y"}}}),
        patch("persistentvolumes/$ns", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
        patch("persistentvolumes/$ns/status", {"status": {"phase": "Available"}}),
        delete("persistentvolumes/$ns"),
    ),
    case(
        "a storage class keeps what it provisions",
        create("storageclasses", {"metadata": {"name": "$ns"}, "provisioner": "example.com/x"}),
        patch("storageclasses/$ns", {"provisioner": "example.com/y"}, MERGE),
        patch("storageclasses/$ns", {"allowVolumeExpansion": True}, MERGE),
        patch("storageclasses/$ns", {"reclaimPolicy": "Retain"}, MERGE),
        create("storageclasses", {"metadata": {"name": "$ns-2"}}),
        create(
            "storageclasses",
            {"metadata": {"name": "$ns-2"}, "provisioner": "x", "volumeBindingMode": "Maybe"},
        ),
        delete("storageclasses/$ns"),
    ),
    case(
        "a node is registered, tainted and cordoned",
        create("nodes", {"metadata": {"name": "$ns", "labels": {"zone": "z1"}}}),
        patch("nodes/$ns", {"spec": {"unschedulable": True}}),
        patch("nodes/$ns", {"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}}),
        patch("nodes/$ns", {"spec": {"taints": [{"key": "a", "effect": "Sideways"}]}}, MERGE),
        patch(
            "nodes/$ns/status",
            {
                "status": {
                    "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                    "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                    "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                }
            },
        ),
        patch("nodes/$ns", {"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}}),
        patch("nodes/$ns", {"spec": {"podCIDR": "10.2.0.0/24"}}),
        get(
            "nodes",
            fieldSelector="spec.unschedulable=true,metadata.name=$ns",
            only=("items.0.metadata.name",),
        ),
        delete("nodes/$ns"),
    ),
    case(
        "a lease must be valid and needs the version it changes",
        create(
            "leases",
            {
                "metadata": {"name": "l"},
                "spec": {
                    "holderIdentity": "a",
                    "leaseDurationSeconds": 15,
                    "renewTime": "2001-01-01T00:00:00.000000Z",
                },
            },
        ),
        put(
            "leases/l",
            based_on(1, {"spec": {"renewTime": "2001-01-01T00:00:10.123456Z", "leaseTransitions": 1}}),
        ),
        put("leases/l", based_on(1, {"spec": {"holderIdentity": "b"}})),
        put("leases/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "b"}}),
        patch("leases/l", {"spec": {"leaseDurationSeconds": 0}}, MERGE),
        create("leases", {"metadata": {"name": "m"}, "spec": {"leaseTransitions": -1}}),
    ),
    case(
        "events are kept in both groups",
        create(
            "events",
            {
                "metadata": {"name": "e"},
                "involvedObject": {"kind": "Pod", "name": "p", "namespace": "$ns"},
                "reason": "Tested",
                "message": "it was",
                "type": "Normal",
                "firstTimestamp": "2001-01-01T00:00:00Z",
                "lastTimestamp": "2001-01-01T00:00:00Z",
                "count": 1,
                "source": {"component": "tester"},
            },
        ),
        get("/apis/events.k8s.io/v1/namespaces/$ns/events/e"),
        patch("events/e", {"count": 2}),
        get("events", fieldSelector="involvedObject.name=p", only=("items.0.metadata.name", "items.1")),
        get("events", fieldSelector="involvedObject.name=q,reason=Tested", only=("items.0",)),
        create(
            "events", {"metadata": {"name": "f"}, "involvedObject": {"kind": "Pod", "namespace": "elsewhere"}}
        ),
        create(
            "/apis/events.k8s.io/v1/namespaces/$ns/events",
            {
                "metadata": {"name": "g"},
                "regarding": {"kind": "Pod", "name": "p", "namespace": "$ns"},
                "reason": "R",
                "type": "Normal",
                "action": "A",
                "reportingController": "example.com/c",
                "reportingInstance": "i",
                "eventTime": "2001-01-01T00:00:00.000000Z",
            },
        ),
        create(
            "/apis/events.k8s.io/v1/namespaces/$ns/events",
            {"metadata": {"name": "h"}, "regarding": {"namespace": "$ns"}, "type": "Odd"},
        ),
    ),
    case(
        "endpoints and slices of them",
        create(
            "endpoints",
            {
                "metadata": {"name": "e"},
                "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}],
            },
        ),
        create("endpoints", {"metadata": {"name": "f"}, "subsets": [{"addresses": [{"ip": "nonsense"}]}]}),
        create(
            "endpointslices",
            {
                "metadata": {"name": "s"},
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.0.0.1"]}],
                "ports": [{"port": 80}],
            },
        ),
        create("endpointslices", {"metadata": {"name": "t"}, "endpoints": []}),
        patch("endpointslices/s", {"addressType": "IPv6"}, MERGE),
    ),
    case(
        "roles and bindings must be valid and a binding keeps its role",
        create(
            "roles",
            {
                "metadata": {"name": "r"},
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
            },
        ),
        create("roles", {"metadata": {"name": "s"}, "rules": [{"apiGroups": [""], "resources": ["pods"]}]}),
        create(
            "rolebindings",
            {
                "metadata": {"name": "b"},
                "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
                "subjects": [
                    {"kind": "ServiceAccount", "name": "x", "namespace": "$ns"},
                    {"kind": "User", "name": "u"},
                ],
            },
        ),
        patch("rolebindings/b", {"roleRef": {"name": "other"}}, MERGE),
        create("rolebindings", {"metadata": {"name": "c"}, "roleRef": {"kind": "Role", "name": "none"}}),
        create(
            "rolebindings",
            {
                "metadata": {"name": "c"},
                "roleRef": {"kind": "Odd", "name": "none"},
                "subjects": [{"kind": "Odd", "name": ""}],
            },
        ),
        create(
            "clusterroles",
            {"metadata": {"name": "$ns"}, "rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]},
        ),
        create(
            "clusterrolebindings",
            {
                "metadata": {"name": "$ns"},
                "roleRef": {"kind": "ClusterRole", "name": "$ns", "apiGroup": "rbac.authorization.k8s.io"},
            },
        ),
    ),
    case(
        "service accounts, quotas, limits and priorities are kept",
        create("serviceaccounts", {"metadata": {"name": "a"}}),
        create(
            "resourcequotas",
            {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "10", "requests.cpu": "1"}}},
        ),
        create(
            "limitranges",
            {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
        ),
        create("priorityclasses", {"metadata": {"name": "$ns"}, "value": 1000}),
        patch("priorityclasses/$ns", {"value": 5}, MERGE),
        create("priorityclasses", {"metadata": {"name": "system-mine"}, "value": 5}),
        create("priorityclasses", {"metadata": {"name": "$ns-2"}, "value": 2000000000}),
        create(
            "pods",
            {
                "metadata": {"name": "p"},
                "spec": {
                    "priorityClassName": "$ns",
                    "containers": [
                        {
                            "name": "x",
                            "image": "x",
                            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
                        }
                    ],
                },
            },
        ),
        delete("priorityclasses/$ns"),
    ),
    case(
        "webhook configurations get their defaults and must be valid",
        create("mutatingwebhookconfigurations", {"metadata": {"name": "$ns"}, "webhooks": [_webhook()]}),
        create("validatingwebhookconfigurations", {"metadata": {"name": "$ns"}, "webhooks": [_webhook()]}),
        create(
            "validatingwebhookconfigurations",
            {"metadata": {"name": "$ns-2"}, "webhooks": [_webhook(name="short")]},
        ),
        create(
            "validatingwebhookconfigurations",
            {"metadata": {"name": "$ns-2"}, "webhooks": [_webhook(sideEffects="Some")]},
        ),
        create(
            "validatingwebhookconfigurations",
            {"metadata": {"name": "$ns-2"}, "webhooks": [_webhook(clientConfig={})]},
        ),
        create(
            "validatingwebhookconfigurations",
            {"metadata": {"name": "$ns-2"}, "webhooks": [_webhook(failurePolicy="Maybe", timeoutSeconds=60)]},
        ),
        create(
            "validatingwebhookconfigurations",
            {"metadata": {"name": "$ns-2"}, "webhooks": [_webhook(clientConfig={"url": "http://x"})]},
        ),
        patch(
            "mutatingwebhookconfigurations/$ns",
            {"webhooks": [{"name": "x.example.com", "failurePolicy": "Ignore"}]},
        ),
        delete("mutatingwebhookconfigurations/$ns"),
        delete("validatingwebhookconfigurations/$ns"),
    ),
]
