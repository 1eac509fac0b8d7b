"""The agents of nodes as manifests: a DaemonSet, its account, and what that may do.

Installation ──▶ daemon_manifests() ──▶ install, chart (templates/daemon.yaml is compared with it)

Pure. Object names, the label, the port and the host path are those of OpenKruise's daemon, which it replaces in place.
"""

from functools import partial
from typing import Any, Final

from pykruise.kinds.gates import Gates
from pykruise.kube.documents import Document
from pykruise.kube.node_agent.rights import SECRET_RIGHTS, rights_of_agent
from pykruise.manager.roles import role_of
from pykruise.manager.settings import SECRETS_NAMESPACE

__all__ = ["DAEMON", "DAEMON_LABELS", "HEALTH_PORT", "daemon_account", "daemon_manifests", "daemon_roles"]

DAEMON: Final = "kruise-daemon"
DAEMON_LABELS: Final = {"control-plane": "daemon"}
HEALTH_PORT: Final = 10221


def daemon_manifests(
    *, namespace: str, image: str, gates: Gates, feature_gates: str, verbosity: int, socket_location: str
) -> list[Document]:
    """Account, roles and DaemonSet; nothing where the gate KruiseDaemon is off."""
    if not gates["KruiseDaemon"]:
        return []
    return [
        *daemon_account(gates, namespace=namespace),
        _daemon_set(namespace, image, feature_gates, verbosity, socket_location),
    ]


def daemon_account(gates: Gates, *, namespace: str) -> list[Document]:
    """The agents' account and what it may do: they need it wherever managers run."""
    if not gates["KruiseDaemon"]:
        return []
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": DAEMON, "namespace": namespace},
    }
    return [account, *daemon_roles(gates, namespace=namespace)]


def daemon_roles(gates: Gates, *, namespace: str) -> list[Document]:
    """What agents may do in the whole cluster, and the Role that opens the copied pull secrets to them."""
    wide = rights_of_agent(probes=gates["PodProbeMarkerGate"], watches_pods=gates["DaemonWatchingPod"])
    role = partial(role_of, DAEMON, namespace)
    return [
        *role("kruise-daemon-role", wide),
        *role("kruise-daemon-secret-role", SECRET_RIGHTS, within=SECRETS_NAMESPACE),
    ]


def _daemon_set(
    namespace: str, image: str, feature_gates: str, verbosity: int, socket_location: str
) -> Document:
    pod: dict[str, Any] = {
        "serviceAccountName": DAEMON,
        "hostNetwork": True,  # probes reach pods, and HTTP hooks too, as the kubelet does
        "dnsPolicy": "ClusterFirstWithHostNet",
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
        "containers": [_container(image, feature_gates, verbosity)],
        "volumes": [
            {"name": "runtime-socket-dir", "hostPath": {"path": socket_location, "type": ""}},
            {"name": "tmp", "emptyDir": {}},
        ],
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


def _container(image: str, feature_gates: str, verbosity: int) -> dict[str, Any]:
    return {
        "name": "daemon",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            f"--addr=:{HEALTH_PORT}",
            "--pprof-addr=localhost:10222",
            f"--v={verbosity}",
            f"--feature-gates={feature_gates}",
        ],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "ports": [{"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": HEALTH_PORT, "scheme": "HTTP"},
            "initialDelaySeconds": 60,
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "resources": {"limits": {"cpu": "200m", "memory": "128Mi"}, "requests": {"cpu": "0", "memory": "0"}},
        # Root, since sockets of container runtimes are root's; and nothing else of it.
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsUser": 0,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "runtime-socket-dir", "mountPath": "/hostvarrun", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
