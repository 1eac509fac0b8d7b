"""Manifests of the agents on nodes: a DaemonSet, its ServiceAccount, and the account's permissions.

Installation ──▶ build_daemon_manifests() ──▶ install, chart (templates/daemon.yaml is compared with it)

Pure. Object names, the label, the port and the mount path of the sockets are those of OpenKruise's daemon, which these
agents replace in place.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from pykruise.agent.rules.rights import SECRET_RIGHTS, rights_of_agent
from pykruise.kinds.containerrecreaterequest.view import NODE_LABEL
from pykruise.kinds.gates import Gates
from pykruise.kube.documents import Document
from pykruise.kube.schemas.releases import number_of
from pykruise.manager.roles import role_of
from pykruise.manager.settings import SECRETS_NAMESPACE

DAEMON: Final = "kruise-daemon"
POLICIES_SINCE: Final = "1.30"
"""The first minor version with ValidatingAdmissionPolicies in v1. In older versions, nothing limits an agent to its own
node.
"""

OWN_NODE: Final = "kruise-daemon-own-node"
DAEMON_PRIORITY_CLASS: Final = "system-node-critical"
DAEMON_LABELS: Final = {"control-plane": "daemon"}
HEALTH_PORT: Final = 10221
HEALTH_ADDRESS: Final = "127.0.0.1"
"""Address on which agents serve probes. Agents use the host's network, so on another address everyone who can reach the
node could use the port. The kubelet sends its probes from the node itself.
"""
RUN_FOLDER: Final = "/var/run"
SOCKET_FOLDERS: Final = ("containerd", "crio")
"""Folders in RUN_FOLDER with the sockets of container runtimes. RUN_FOLDER itself is not mounted, because it also
contains files of all other programs on the node.
"""
RUNTIMES: Final = ("containerd", "cri-o")
"""Container runtimes with sockets in SOCKET_FOLDERS, by the scheme of their container ids."""
MOUNTED: Final = "/hostvarrun"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"


def build_daemon_manifests(
    *,
    namespace: str,
    image: str,
    gates: Gates,
    feature_gates: str,
    verbosity: int,
    socket_location: str,
    socket_file: str,
    minor: str,
) -> list[Document]:
    """Return ServiceAccount, roles, DaemonSet and, if API servers of this minor version support it, the policy. Empty
    when the gate KruiseDaemon is off. A `socket_file` without a `socket_location` is a path in RUN_FOLDER.
    """
    if not gates["KruiseDaemon"]:
        return []
    location = socket_location or (RUN_FOLDER if socket_file else "")
    return [
        *build_daemon_account(gates, namespace=namespace),
        *(own_node_policy(namespace=namespace) if has_admission_policies(minor) else []),
        _build_daemon_set(namespace, image, feature_gates, verbosity, location, socket_file),
    ]


def build_daemon_account(gates: Gates, *, namespace: str) -> list[Document]:
    """Return the agents' ServiceAccount and its permissions. Agents also need them when managers run outside the
    cluster.
    """
    if not gates["KruiseDaemon"]:
        return []
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": DAEMON, "namespace": namespace},
    }
    return [account, *build_daemon_roles(gates, namespace=namespace)]


def build_daemon_roles(gates: Gates, *, namespace: str) -> list[Document]:
    """Return the agents' cluster-wide permissions, and the Role with which they read the copied pull secrets."""
    wide = rights_of_agent(probes=gates["PodProbeMarkerGate"], watches_pods=gates["DaemonWatchingPod"])
    role = partial(role_of, DAEMON, namespace)
    return [
        *role("kruise-daemon-role", wide),
        *role("kruise-daemon-secret-role", SECRET_RIGHTS, within=SECRETS_NAMESPACE),
    ]


def has_admission_policies(minor: str) -> bool:
    """Whether API servers of this minor version have ValidatingAdmissionPolicies in v1."""
    return number_of(minor) >= number_of(POLICIES_SINCE)


def own_node_policy(*, namespace: str) -> list[Document]:
    """Return a ValidatingAdmissionPolicy that limits each agent to writes about its own node, and its binding.

    RBAC cannot express this. In Kubernetes 1.30 and later, the token of a pod names the node of the pod. A token of the
    account that names no node does not belong to an agent and must not write anything.
    """
    about_node = {
        "nodeimages": "object.metadata.name == variables.node",
        "nodepodprobes": "object.metadata.name == variables.node",
        "containerrecreaterequests": (
            f"has(oldObject.metadata.labels) && '{NODE_LABEL}' in oldObject.metadata.labels"
            f" && oldObject.metadata.labels['{NODE_LABEL}'] == variables.node"
        ),
        "pods": "has(oldObject.spec.nodeName) && oldObject.spec.nodeName == variables.node",
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                _build_resource_rule("apps.kruise.io", [name for name in about_node if name != "pods"]),
                _build_resource_rule("", ["pods"]),
            ]
        },
        "matchConditions": [
            {
                "name": "by-an-agent",
                "expression": f"request.userInfo.username == 'system:serviceaccount:{namespace}:{DAEMON}'",
            }
        ],
        "variables": [
            {
                "name": "node",
                "expression": (
                    f"has(request.userInfo.extra) && '{_NODE_NAME}' in request.userInfo.extra"
                    f" ? request.userInfo.extra['{_NODE_NAME}'][0] : ''"
                ),
            }
        ],
        "validations": [
            {"expression": "variables.node != ''", "message": "the token names no node"},
            *(
                {
                    "expression": f"request.resource.resource != '{name}' || ({expression})",
                    "message": f"agents may only write {name} of their own node",
                }
                for name, expression in about_node.items()
            ),
        ],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": OWN_NODE}}
    return [
        {**kind, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {
            **kind,
            "kind": "ValidatingAdmissionPolicyBinding",
            "spec": {"policyName": OWN_NODE, "validationActions": ["Deny"]},
        },
    ]


def _build_resource_rule(group: str, resources: Sequence[str]) -> Document:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": [text for name in resources for text in (name, f"{name}/status")],
    }


def _build_daemon_set(
    namespace: str, image: str, feature_gates: str, verbosity: int, socket_location: str, socket_file: str
) -> Document:
    pod: dict[str, Any] = {
        "serviceAccountName": DAEMON,
        "hostNetwork": True,  # the agent's probes and HTTP hooks must reach pods, like those of the kubelet
        "dnsPolicy": "ClusterFirstWithHostNet",
        "priorityClassName": DAEMON_PRIORITY_CLASS,
        "terminationGracePeriodSeconds": 15,
        "tolerations": [{"operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]}
                            ]
                        }
                    ]
                }
            }
        },
        "containers": [_build_container(image, feature_gates, verbosity, socket_location, socket_file)],
        "volumes": [*_build_socket_volumes(socket_location), {"name": "tmp", "emptyDir": {}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": DAEMON, "namespace": namespace, "labels": dict(DAEMON_LABELS)},
        "spec": {
            "minReadySeconds": 3,
            "selector": {"matchLabels": dict(DAEMON_LABELS)},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {"metadata": {"labels": dict(DAEMON_LABELS)}, "spec": pod},
        },
    }


def _build_socket_volumes(location: str) -> list[Document]:
    """Return volumes for all known socket folders, or only for the configured one."""
    if location:
        return [{"name": "runtime-socket-dir", "hostPath": {"path": location, "type": ""}}]
    return [
        {
            "name": f"runtime-socket-{name}",
            "hostPath": {"path": f"{RUN_FOLDER}/{name}", "type": "DirectoryOrCreate"},
        }
        for name in SOCKET_FOLDERS
    ]


def _build_socket_mounts(location: str) -> list[Document]:
    if location:
        return [{"name": "runtime-socket-dir", "mountPath": MOUNTED, "readOnly": True}]
    return [
        {"name": f"runtime-socket-{name}", "mountPath": f"{MOUNTED}/{name}", "readOnly": True}
        for name in SOCKET_FOLDERS
    ]


def _build_container(
    image: str, feature_gates: str, verbosity: int, socket_location: str, socket_file: str
) -> dict[str, Any]:
    return {
        "name": "daemon",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            f"--addr={HEALTH_ADDRESS}:{HEALTH_PORT}",
            "--pprof-addr=localhost:10222",
            f"--v={verbosity}",
            f"--feature-gates={feature_gates}",
            *([f"--socket-file={socket_file}"] if socket_file else []),
        ],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "ports": [{"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
        "livenessProbe": {
            "httpGet": {"host": HEALTH_ADDRESS, "path": "/healthz", "port": HEALTH_PORT, "scheme": "HTTP"},
            "initialDelaySeconds": 60,
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "resources": {"limits": {"cpu": "200m", "memory": "128Mi"}, "requests": {"cpu": "0", "memory": "0"}},
        # The user is root, because root owns the sockets of container runtimes; all other privileges are dropped.
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsUser": 0,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            *_build_socket_mounts(socket_location),
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
