"""Pod specs that every API server rejects: each has one error."""

from collections.abc import Mapping
from typing import Any

Spec = dict[str, Any]


def container(**fields: Any) -> Spec:
    return {"name": "main", "image": "nginx:1", **fields}


def spec(*, containers: list[Spec] | None = None, **fields: Any) -> Spec:
    return {"containers": containers or [container()], **fields}


def one(**fields: Any) -> Spec:
    """A pod whose only container has these fields."""
    return spec(containers=[container(**fields)])


def mounted(mount: Spec, *volumes: Spec) -> Spec:
    return {**one(volumeMounts=[mount]), "volumes": list(volumes)}


def preferring(term: Spec, weight: int = 1) -> Spec:
    soft = [{"weight": weight, "podAffinityTerm": term}]
    return spec(affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": soft}})


GET = {"httpGet": {"path": "/", "port": 80}}
NODE_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"

BROKEN: Mapping[str, Spec] = {
    "no container": {"containers": []},
    "a name in capitals": one(name="Main"),
    "two of a name": spec(containers=[container(), container()]),
    "an init container of the same name": spec(initContainers=[container()]),
    "no image": spec(containers=[{"name": "main"}]),
    "an unknown pull policy": one(imagePullPolicy="Sometimes"),
    "an unknown message policy": one(terminationMessagePolicy="Printed"),
    "a port beyond": one(ports=[{"containerPort": 70000}]),
    "a port of an unknown protocol": one(ports=[{"containerPort": 80, "protocol": "IPX"}]),
    "a port's name": one(ports=[{"containerPort": 80, "name": "Web_Port"}]),
    "two ports of a name": one(ports=[{"containerPort": n, "name": "web"} for n in (80, 81)]),
    "one host port twice": one(ports=[{"containerPort": n, "hostPort": 90} for n in (80, 81)]),
    "a variable without a name": one(env=[{"name": "", "value": "a"}]),
    "a variable with = in its name": one(env=[{"name": "A=B", "value": "a"}]),
    "a variable with a value from nowhere": one(env=[{"name": "A", "valueFrom": {}}]),
    "a variable with two values": one(
        env=[{"name": "A", "value": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    ),
    "a variable fed from no such field": one(
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nonsense"}}}]
    ),
    "a key without a name": one(
        env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": ""}}}]
    ),
    "env from nowhere": one(envFrom=[{}]),
    "a mount of nothing": mounted({"name": "data", "mountPath": "/data"}),
    "a mount at no place": mounted({"name": "data", "mountPath": ""}, {"name": "data", "emptyDir": {}}),
    "a mount that leads out": mounted(
        {"name": "data", "mountPath": "/data", "subPath": "../up"}, {"name": "data", "emptyDir": {}}
    ),
    "a volume with two sources": spec(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
    "two volumes of a name": spec(volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
    "a host path that leads out": spec(volumes=[{"name": "v", "hostPath": {"path": "/a/../b"}}]),
    "a secret without a name": spec(volumes=[{"name": "v", "secret": {}}]),
    "more asked for than allowed": one(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
    "less than nothing": one(resources={"requests": {"memory": "-1"}}),
    "a resource that is none": one(resources={"requests": {"magic": "1"}}),
    "an extended resource without limit": one(resources={"requests": {"example.com/gpu": "1"}}),
    "a probe that does nothing": one(livenessProbe={"periodSeconds": 1}),
    "a probe that does two things": one(readinessProbe={**GET, "exec": {"command": ["true"]}}),
    "a probe before time": one(livenessProbe={**GET, "initialDelaySeconds": -1}),
    "a liveness that succeeds twice": one(livenessProbe={**GET, "successThreshold": 2}),
    "a hook that does nothing": one(lifecycle={"preStop": {"exec": {"command": []}}}),
    "an unknown resize": one(resizePolicy=[{"resourceName": "disk", "restartPolicy": "NotRequired"}]),
    "all rights and none more": one(
        securityContext={"capabilities": {"add": ["CAP_SYS_ADMIN"]}, "allowPrivilegeEscalation": False}
    ),
    "a user below all": one(securityContext={"runAsUser": -1}),
    "an unknown dns policy": spec(dnsPolicy="Mine"),
    "no dns at all": spec(dnsPolicy="None"),
    "an address that is none": spec(hostAliases=[{"ip": "no", "hostnames": ["a"]}]),
    "a node selector that selects nothing": spec(nodeSelector={"zone": "not valid!"}),
    "an account with blanks": spec(serviceAccountName="a b"),
    "a toleration of two minds": spec(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
    "a toleration of an unknown effect": spec(
        tolerations=[{"key": "a", "operator": "Exists", "effect": "X"}]
    ),
    "a spread without a key": spec(
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "", "whenUnsatisfiable": "DoNotSchedule"}]
    ),
    "a spread of nothing": spec(
        topologySpreadConstraints=[
            {"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ]
    ),
    "an affinity that weighs too much": preferring({"topologyKey": "zone"}, weight=101),
    "an affinity to nowhere": preferring({"topologyKey": ""}),
    "an affinity to no label": preferring(
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "not valid!"}}}
    ),
    "an affinity to no node": spec(affinity={"nodeAffinity": {NODE_TERMS: {"nodeSelectorTerms": []}}}),
    "an unknown operator": spec(
        affinity={
            "nodeAffinity": {
                NODE_TERMS: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]}
            }
        }
    ),
    "a readiness gate without a type": spec(readinessGates=[{"conditionType": ""}]),
    "ephemeral containers": spec(ephemeralContainers=[container(name="debug")]),
}
"""The error → the spec."""
