"""Every field of a pod's spec in a minor version of Kubernetes, each in a pod with as few other fields as possible.

minor ──▶ pod_fields(minor) ──▶ path → spec   `containers[].lifecycle.stopSignal` → {"containers": […], …}
spec + the pod that a server stored ──▶ outcome() ──▶ kept, dropped or refused

minor ──▶ recorded() ──▶ path → the result of the minor's API server

The values are generated from the types. If a rule restricts a field further, VALUES has a valid value.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pykruise.cli.insight.simulating import Played
from pykruise.kube.documents import Document
from pykruise.kube.schemas.builtin_types import fields_of
from pykruise.pods.reasons import NOT_WRITTEN

POD_SPEC: Final = "io.k8s.api.core.v1.PodSpec"
_CORE: Final = "io.k8s.api.core.v1."
_DEEPEST: Final = 7

SCALARS: Final[Mapping[str, Any]] = {
    "any": {},
    "bool": True,
    "bytes": "",
    "float64": 1,
    "int32": 1,
    "int64": 1,
    "intOrString": 80,
    "microtime": "2026-01-01T00:00:00.000000Z",
    "object": {},
    "quantity": "1",
    "string": "x",
    "time": "2026-01-01T00:00:00Z",
}

LEAST: Final[Mapping[str, Document]] = {
    "AWSElasticBlockStoreVolumeSource": {"volumeID": "v"},
    "AzureDiskVolumeSource": {"diskName": "d", "diskURI": "https://x/d"},
    "AzureFileVolumeSource": {"secretName": "secret", "shareName": "s"},
    "CephFSVolumeSource": {"monitors": ["m"]},
    "CinderVolumeSource": {"volumeID": "v"},
    "Container": {"name": "extra", "image": "nginx:1"},
    "ContainerPort": {"containerPort": 80},
    "ContainerResizePolicy": {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    "ContainerRestartRule": {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}},
    "ContainerRestartRuleOnExitCodes": {"operator": "In", "values": [1]},
    "ClusterTrustBundleProjection": {"name": "bundle", "path": "ca.pem"},
    "ConfigMapEnvSource": {"name": "config"},
    "ConfigMapKeySelector": {"name": "config", "key": "k"},
    "ConfigMapProjection": {"name": "config"},
    "ConfigMapVolumeSource": {"name": "config"},
    "CSIVolumeSource": {"driver": "csi.example.com"},
    "DownwardAPIVolumeFile": {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
    "EnvVar": {"name": "E"},
    "EphemeralVolumeSource": {
        "volumeClaimTemplate": {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        }
    },
    "EvictionResponder": {"name": "responder.example.com"},
    "ExecAction": {"command": ["true"]},
    "FCVolumeSource": {"targetWWNs": ["w"], "lun": 0},
    "FileKeySelector": {"volumeName": "extra", "path": "env", "key": "K"},
    "FlexVolumeSource": {"driver": "example.com/d"},
    "FlockerVolumeSource": {"datasetName": "d"},
    "GCEPersistentDiskVolumeSource": {"pdName": "p"},
    "GRPCAction": {"port": 80},
    "GitRepoVolumeSource": {"repository": "https://x"},
    "GlusterfsVolumeSource": {"endpoints": "e", "path": "p"},
    "HostAlias": {"ip": "10.0.0.1"},
    "HostPathVolumeSource": {"path": "/x"},
    "HTTPGetAction": {"port": 80},
    "HTTPHeader": {"name": "X-H", "value": "x"},
    "ISCSIVolumeSource": {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:s", "lun": 0},
    "ImageVolumeSource": {"reference": "model:1"},
    "KeyToPath": {"key": "k", "path": "p"},
    "LabelSelectorRequirement": {"key": "k", "operator": "Exists"},
    "LocalObjectReference": {"name": "secret"},
    "NFSVolumeSource": {"server": "nfs", "path": "/"},
    "NodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]},
    "NodeSelectorRequirement": {"key": "k", "operator": "Exists"},
    "ObjectFieldSelector": {"fieldPath": "metadata.name"},
    "PersistentVolumeClaimSpec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
    "PersistentVolumeClaimTemplate": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "PersistentVolumeClaimVolumeSource": {"claimName": "claim"},
    "PhotonPersistentDiskVolumeSource": {"pdID": "p"},
    "PodAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}},
    "PodCertificateProjection": {
        "signerName": "example.com/signer",
        "keyType": "ED25519",
        "credentialBundlePath": "bundle.pem",
    },
    "PodOS": {"name": "linux"},
    "PodReadinessGate": {"conditionType": "example.com/gate"},
    "PodResourceClaim": {"name": "gpu", "resourceClaimName": "gpu"},
    "PodSchedulingGate": {"name": "example.com/gate"},
    "PodSchedulingGroup": {"podGroupName": "group"},
    "PreferredSchedulingTerm": {
        "weight": 1,
        "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]},
    },
    "PortworxVolumeSource": {"volumeID": "v"},
    "Probe": {"exec": {"command": ["true"]}},
    "QuobyteVolumeSource": {"registry": "h:1", "volume": "v"},
    "RBDVolumeSource": {"monitors": ["m"], "image": "i"},
    "ResourceClaim": {"name": "gpu"},
    "ResourceFieldSelector": {"resource": "limits.cpu", "containerName": "main"},
    "ScaleIOVolumeSource": {
        "gateway": "g",
        "system": "s",
        "secretRef": {"name": "secret"},
        "volumeName": "v",
    },
    "SecretEnvSource": {"name": "secret"},
    "SecretKeySelector": {"name": "secret", "key": "k"},
    "SecretProjection": {"name": "secret"},
    "SecretVolumeSource": {"secretName": "secret"},
    "ServiceAccountTokenProjection": {"path": "token"},
    "SleepAction": {"seconds": 1},
    "StorageOSVolumeSource": {"volumeName": "v"},
    "Sysctl": {"name": "kernel.shm_rmid_forced", "value": "1"},
    "TCPSocketAction": {"port": 80},
    "Toleration": {"key": "k", "operator": "Exists"},
    "TopologySpreadConstraint": {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"a": "b"}},
    },
    "Volume": {"name": "extra"},
    "VolumeDevice": {"name": "extra", "devicePath": "/dev/x"},
    "VolumeMount": {"name": "extra", "mountPath": "/mnt"},
    "VsphereVirtualDiskVolumeSource": {"volumePath": "p"},
    "WeightedPodAffinityTerm": {
        "weight": 1,
        "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}},
    },
}
"""The minimum fields of a value of a definition, if an empty value is not valid."""

VALUES: Final[Mapping[str, Any]] = {
    "Container.imagePullPolicy": "Always",
    "Container.restartPolicy": "Always",
    "Container.terminationMessagePolicy": "File",
    "Container.terminationMessagePath": "/dev/x",
    "ContainerPort.protocol": "TCP",
    "ContainerPort.hostIP": "10.0.0.1",
    "GRPCAction.mode": "Insecure",
    "HTTPGetAction.protocol": "HTTP",
    "HTTPGetAction.scheme": "HTTPS",
    "HTTPGetAction.path": "/x",
    "HostPathVolumeSource.type": "Directory",
    "ImageVolumeSource.pullPolicy": "Always",
    "Lifecycle.stopSignal": "SIGUSR1",
    "PersistentVolumeClaimSpec.accessModes": ["ReadWriteOnce"],
    "PodSecurityContext.fsGroupChangePolicy": "Always",
    "PodSecurityContext.seLinuxChangePolicy": "Recursive",
    "PodSecurityContext.supplementalGroupsPolicy": "Strict",
    "PodSpec.activeDeadlineSeconds": 60,
    "PodSpec.dnsPolicy": "Default",
    "PodSpec.preemptionPolicy": "Never",
    "PodSpec.restartPolicy": "OnFailure",
    "PodSpec.serviceAccountName": "default",
    "PodSpec.serviceAccount": "default",
    "PodSpec.hostUsers": False,
    "SecurityContext.procMount": "Default",
    "Toleration.operator": "Exists",
    "TopologySpreadConstraint.nodeAffinityPolicy": "Honor",
    "TopologySpreadConstraint.nodeTaintsPolicy": "Honor",
    "VolumeMount.mountPropagation": "HostToContainer",
    "VolumeMount.recursiveReadOnly": "Disabled",
}
"""Values of fields, as `Definition.field`, for which another value of their type would break a rule."""


INSTEAD: Final = frozenset({"Probe.httpGet", "Probe.grpc", "Probe.tcpSocket"})
"""Fields that replace the minimum fields of their definition."""
_OF_SIDECARS: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


def pod_fields(minor: str) -> Iterator[tuple[str, Document]]:
    """Each field of the spec with the spec of a pod that has it."""
    for path, spec in _structs(POD_SPEC, minor, "", ()):
        if path.startswith("ephemeralContainers["):
            continue  # a new pod has none
        spec.setdefault("containers", []).insert(0, {"name": "main", "image": "nginx:1"})
        if "stopSignal" in path:
            spec["os"] = {"name": "linux"}
        for container in spec.get("initContainers") or ():
            if any(field in container for field in _OF_SIDECARS):
                container.setdefault("restartPolicy", "Always")
        for container in (*spec["containers"], *(spec.get("initContainers") or ())):
            if "restartPolicyRules" in container:
                container.setdefault("restartPolicy", "Never")
        if "volumeMounts" in path or "volumeDevices" in path or "fileKeyRef" in path:
            spec["volumes"] = [{"name": "extra", "emptyDir": {}}]
        yield path, spec


def _structs(
    definition: str, minor: str, path: str, above: tuple[str, ...]
) -> Iterator[tuple[str, Document]]:
    """Each field below a definition, and a document of it that has the field."""
    name = definition.removeprefix(_CORE)
    for field, facts in (fields_of(definition, minor) or {}).items():
        here = f"{path}.{field}" if path else field
        kind = facts.kind.removeprefix("*")
        marks = ""
        while kind.startswith(("[]", "{}")):
            marks, kind = marks + kind[:2], kind[2:].removeprefix("*")
        least = {} if f"{name}.{field}" in INSTEAD else LEAST.get(name, {})
        if kind in SCALARS:
            value = VALUES.get(f"{name}.{field}", _wrapped(SCALARS[kind], marks))
            yield here, {**least, field: value}
            continue
        if kind in above or len(above) >= _DEEPEST:
            continue
        inner = kind.removeprefix(_CORE)
        yield here, {**least, field: _wrapped(dict(LEAST.get(inner, {})), marks)}
        for deeper, document in _structs(kind, minor, f"{here}{'[]' if marks else ''}", (*above, kind)):
            yield deeper, {**least, field: _wrapped(document, marks)}


def _wrapped(value: Any, marks: str) -> Any:
    for mark in (marks[at : at + 2] for at in range(len(marks) - 2, -1, -2)):
        value = [value] if mark == "[]" else {"k": value}
    return value


def has_field(spec: Any, path: str) -> bool:
    """Whether a spec contains the field at this path, in any item of lists."""
    return _has(spec, path.split("."))


def _has(value: Any, steps: list[str]) -> bool:
    if isinstance(value, list):
        return any(_has(item, steps) for item in value)
    if not steps:
        return True
    step, *rest = steps
    name = step.removesuffix("[]")
    if not isinstance(value, dict) or name not in value:
        return False
    inner = value[name]
    if step.endswith("[]") and isinstance(inner, dict):  # a map
        return any(_has(item, rest) for item in inner.values())
    return _has(inner, rest) if rest else True


def outcome(status: int, body: Any, path: str) -> str:
    """Result of a server for a pod with this field: `kept`, `dropped`, or `refused` with the code and causes."""
    if status == 201:
        return "kept" if has_field(body["spec"], path) else "dropped"
    causes = (body.get("details") or {}).get("causes") or ()
    places = sorted({f"{cause.get('reason')} {cause.get('field')}" for cause in causes})
    return " ".join(["refused", str(status), *places])


# what API servers and CloneSets make of the fields

RECORDED: Final = Path(__file__).parents[1] / "conformance" / "pod_fields"


def recorded(minor: str) -> dict[str, str]:
    answers: dict[str, str] = json.loads((RECORDED / f"{minor}.json").read_text())
    return answers


IN_TEMPLATES: Final[Mapping[str, str]] = {
    r"^activeDeadlineSeconds$": "Admission of CloneSets forbids it, as OpenKruise's does.",
    r"^restartPolicy$": "Pods of a CloneSet run forever: only Always is allowed.",
}
"""Pattern of paths → the reason for which a CloneSet may not have a field that a pod may have."""
OF_DROPPED: Final[Mapping[str, str]] = {
    r"\bresources\.claims\b": "A container's resource claim must name a resource claim of the pod.",
    r"^resources\.(limits|requests)$": "Resources of a whole pod are only cpu and memory.",
    r"^resourceClaims\[\]\.resourceClaimTemplateName$": "A claim refers either to a ResourceClaim or to a template.",
}
"""Pattern of paths that an API server drops → the rule of the newest minor that their value here breaks. Admission also
checks fields that the API server drops, like a cluster with the feature enabled."""


_VALUES: Final = "The sandbox does not check all rules of this part, so it accepts some invalid values."
DIFFERENCES: Final[Mapping[str, str]] = {
    r"\.windowsOptions\.hostProcess$": _VALUES,
    r"^overhead$": _VALUES,
    r"^initContainers\[\]\.resizePolicy\b": _VALUES,
    r"^volumes\[\]\.(azureDisk|ephemeral|fc|flocker|iscsi|quobyte)\.": _VALUES,
    r"^volumes\[\]\.projected\.sources\[\]\.(clusterTrustBundle|podCertificate)\.": _VALUES,
}
"""Pattern of paths → the reason for a difference: the sandbox may only omit a rejection, or one of its causes."""


def refusals(result: Played) -> list[str]:
    """Reasons for which the CloneSet or its pod was rejected."""
    conditions = result.status.get("conditions") or []
    pods = [condition["message"] for condition in conditions if condition["reason"] in NOT_WRITTEN]
    return [*result.refused, *pods]
