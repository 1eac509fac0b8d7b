"""Manifests of all objects that a manager needs in a cluster.

Installation ──▶ build_manifests() ──▶ YAML for `kubectl apply --server-side -f -`

Pure. Object names are OpenKruise's, so that an installation of pykruise replaces an installation of OpenKruise in
place, and vice versa. Fields that a manager sets itself (certificates, CA bundles) are left out, so a second apply does
not remove them.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from pykruise.admission.configurations import Endpoint, build_configurations
from pykruise.admission.reviewers import list_installed_rules
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds import HUB_STORED, build_crds
from pykruise.kinds.gates import Gates
from pykruise.kube.documents import Document
from pykruise.kube.schemas.crds import build_webhook_conversion
from pykruise.kube.schemas.releases import NEWEST_MINOR
from pykruise.kube.version import REGISTRY, __version__
from pykruise.manager.daemon import DAEMON_PRIORITY_CLASS, build_daemon_account, build_daemon_manifests
from pykruise.manager.roles import ACCOUNT, build_aggregated_roles, build_roles
from pykruise.manager.settings import GRACE_PERIOD_S, SECRETS_NAMESPACE


def image_of(name: str, registry: str = "") -> str:
    """Return the full name of an image of this version in a registry: `registry.example.com/team/kruise-manager:v1`."""
    return f"{registry.rstrip('/') or REGISTRY or 'pykruise'}/{name}:v{__version__}"


MANAGER_NAME: Final = "kruise-manager"
DAEMON_NAME: Final = "kruise-daemon"
IMAGE: Final = image_of(MANAGER_NAME)
DAEMON_IMAGE: Final = image_of(DAEMON_NAME)
MANAGER = "kruise-controller-manager"
SERVICE = "kruise-webhook-service"
CHART_GATES = "ImagePullJobGate=true"
"""Feature gates that OpenKruise's chart enables by default."""
NON_ROOT = 65534
CLIENTS_FOLDER = "/etc/kruise-webhook-clients"
"""Mount path of the CA certificate for API servers' client certificates."""

WEBHOOK_PORT_NAME: Final = "webhook"
"""Name of the webhooks' port. OpenKruise's kustomization gives the name `webhook-server` to port 9443. Server-side
apply may keep that port, and API servers reject a container that has two ports with the same name.
"""

RUNS_IN = "pykruise.io/runs-in"
"""Annotation of the manager's Deployment: the program that runs the manager when no pod runs it (`pykruise up`)."""

POD_LABELS = {"control-plane": "controller-manager"}
"""Labels of the manager's pods; the Service's selector matches them."""

NAMESPACE_LABELS = {"control-plane": "openkruise"}
"""Labels of the manager's namespace. Pod webhooks exclude namespaces with these labels."""


MANAGER_PRIORITY_CLASS: Final = "system-cluster-critical"
UNLIMITED_PODS: Final = "1G"
"""Number of pods that no namespace reaches."""


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an installation."""

    namespace: str = "kruise-system"
    create_namespace: bool = True
    """Whether the manager's namespace is included. The namespace for copied pull secrets always is."""
    has_crds: bool = True
    """Whether CRDs are included. False: the cluster's CRDs are not changed."""
    layout: str = HUB_STORED
    """The version in which the CRDs store objects (`find_stored_version` in kinds)."""
    replicas: int = 2
    has_disruption_budget: bool = True
    """Whether several replicas get a PodDisruptionBudget. False: another PodDisruptionBudget covers the managers."""
    image: str = IMAGE
    daemon_image: str = DAEMON_IMAGE
    """Image of the agents on nodes."""
    socket_location: str = ""
    """The host's folder with the container runtime's socket; empty: the folders of containerd and CRI-O in /var/run."""
    socket_file: str = ""
    """The socket's path in `socket_location`, or in /var/run; empty: agents try all known sockets."""
    gates: Gates = Gates({"ImagePullJobGate": True})
    feature_gates: str = CHART_GATES
    """Feature gates as text for the manager's flag; `gates` contains the same gates in parsed form."""
    webhook_host: str = ""
    """Host at which managers outside the cluster serve webhooks (their WEBHOOK_HOST and `webhook_port`). The manifests
    then create no pods. Empty: managers run in the cluster, behind the Service.
    """
    webhook_port: int = 9876
    metrics_port: int = 8080
    health_port: int = 8000
    state_metrics: bool = False
    """Whether managers serve metrics about the state of each object."""
    verbosity: int = 4
    shards: int = 1
    """Number of replicas that share the work; 1: one leader does all of it."""
    api_servers: tuple[str, ...] = ()
    """Addresses (CIDR) from which API servers send reviews; if set, a NetworkPolicy blocks all other addresses from the
    webhooks.
    """
    metrics_from: tuple[str, ...] = ()
    """Addresses (CIDR) from which metrics are read; if set, all other addresses are blocked from the metrics."""
    egress_to: tuple[str, ...] = ()
    """Addresses (CIDR) of API servers; if set, managers connect to no other address."""
    minor: str = NEWEST_MINOR
    """Minor version of the cluster's Kubernetes: objects that it does not support are left out."""
    client_authority: str = ""
    """A ConfigMap in `namespace` with `ca.crt`: the CA certificate for the client certificates that API servers send to
    webhooks.
    """


def build_manifests(wanted: Installation) -> list[Document]:
    """Return all objects in a suitable order for applying."""
    endpoint = Endpoint(
        namespace=wanted.namespace, service=SERVICE, host=wanted.webhook_host, port=wanted.webhook_port
    )
    admission = AdmissionSettings(
        namespace=wanted.namespace,
        gates=wanted.gates,
        pod_webhook=wanted.gates["PodWebhook"],
    )
    # API servers reject a webhook with both a URL and a Service. So the manifests must use the same form that managers
    # write; otherwise a second apply would fail.
    conversion = build_webhook_conversion(service=(wanted.namespace, SERVICE), url=endpoint.base_url)
    return [
        *([_build_namespace(wanted)] if wanted.create_namespace else []),
        build_secrets_namespace(),
        *(build_crds(conversion, layout=wanted.layout) if wanted.has_crds else []),
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": wanted.namespace},
        },
        *build_roles(wanted.gates, namespace=wanted.namespace),
        *build_aggregated_roles(),
        *_build_programs(wanted),
        *build_configurations(list_installed_rules(admission), endpoint),
    ]


def _build_programs(wanted: Installation) -> list[Document]:
    """Return managers and agents. For managers outside the cluster: only the agents' account with its permissions."""
    if wanted.webhook_host:
        return build_daemon_account(wanted.gates, namespace=wanted.namespace)
    return [_build_critical_quota(wanted), *build_workload(wanted), *_build_daemon(wanted)]


def build_workload(wanted: Installation) -> list[Document]:
    """Return the running parts and their network access: Service, Deployment, PodDisruptionBudget, NetworkPolicy."""
    return [
        _build_service(wanted),
        _build_deployment(wanted),
        *([_build_disruption_budget(wanted)] if wanted.has_disruption_budget and wanted.replicas > 1 else []),
        *(
            [_build_network_policy(wanted)]
            if wanted.api_servers or wanted.metrics_from or wanted.egress_to
            else []
        ),
    ]


def _build_critical_quota(wanted: Installation) -> Document:
    """Return a ResourceQuota that permits pods with critical priority classes in the namespace. Some clusters, such as
    those of GKE, reject these pods in namespaces without such a quota. It limits no other pods.
    """
    classes = {
        "scopeName": "PriorityClass",
        "operator": "In",
        "values": [MANAGER_PRIORITY_CLASS, DAEMON_PRIORITY_CLASS],
    }
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "kruise-critical-pods", "namespace": wanted.namespace},
        "spec": {"hard": {"pods": UNLIMITED_PODS}, "scopeSelector": {"matchExpressions": [classes]}},
    }


def _build_daemon(wanted: Installation) -> list[Document]:
    return build_daemon_manifests(
        namespace=wanted.namespace,
        image=wanted.daemon_image,
        gates=wanted.gates,
        feature_gates=wanted.feature_gates,
        verbosity=wanted.verbosity,
        socket_location=wanted.socket_location,
        socket_file=wanted.socket_file,
        minor=wanted.minor,
    )


def _build_namespace(wanted: Installation) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": wanted.namespace, "labels": dict(NAMESPACE_LABELS)},
    }


def build_secrets_namespace() -> Document:
    """Return the namespace for copied pull secrets, the only one in which agents of nodes may read them."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SECRETS_NAMESPACE}}


def _build_service(wanted: Installation) -> Document:
    port = {"name": "webhook", "port": 443, "protocol": "TCP", "targetPort": wanted.webhook_port}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": wanted.namespace},
        "spec": {"ports": [port], "selector": dict(POD_LABELS)},
    }


def _build_disruption_budget(wanted: Installation) -> Document:
    """Return the budget of the managers. The budget keeps one manager ready, and always allows the eviction of managers
    that are not ready. Otherwise API servers would evict no manager while none is ready, so the nodes of managers could
    not be drained.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": MANAGER, "namespace": wanted.namespace},
        "spec": {
            "minAvailable": 1,
            "selector": {"matchLabels": dict(POD_LABELS)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _build_network_policy(wanted: Installation) -> Document:
    """Return the NetworkPolicy of managers for the configured addresses. Probes come from nodes with unknown
    addresses, so the port of the probes is open.
    """
    ingress = [
        _build_port_rule(wanted.api_servers, wanted.webhook_port),
        *(
            [
                _build_port_rule((), wanted.health_port),
                _build_port_rule(wanted.metrics_from, wanted.metrics_port),
            ]
            if wanted.metrics_from
            else [_build_port_rule((), wanted.health_port, wanted.metrics_port)]
        ),
    ]
    is_in, is_out = bool(wanted.api_servers or wanted.metrics_from), bool(wanted.egress_to)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": MANAGER, "namespace": wanted.namespace},
        "spec": {
            "podSelector": {"matchLabels": dict(POD_LABELS)},
            "policyTypes": [*(["Ingress"] if is_in else []), *(["Egress"] if is_out else [])],
            **({"ingress": ingress} if is_in else {}),
            **({"egress": [{"to": _build_ip_blocks(wanted.egress_to)}]} if is_out else {}),
        },
    }


def _build_port_rule(sources: Sequence[str], *ports: int) -> Document:
    """Return a rule for these ports and source addresses; without addresses: all sources."""
    given = {"from": _build_ip_blocks(sources)} if sources else {}
    return {**given, "ports": [{"protocol": "TCP", "port": port} for port in ports]}


def _build_ip_blocks(addresses: Sequence[str]) -> list[Document]:
    return [{"ipBlock": {"cidr": cidr}} for cidr in addresses]


def _build_deployment(wanted: Installation) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": MANAGER, "namespace": wanted.namespace, "labels": dict(POD_LABELS)},
        "spec": {
            "replicas": wanted.replicas,
            "minReadySeconds": 3,
            "selector": {"matchLabels": dict(POD_LABELS)},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0},
            },
            "template": {"metadata": {"labels": dict(POD_LABELS)}, "spec": _build_pod_template(wanted)},
        },
    }


def _build_pod_template(wanted: Installation) -> dict[str, Any]:
    return {
        "serviceAccountName": ACCOUNT,
        # API servers reject pods while no webhook responds, so other pods must not preempt the manager.
        "priorityClassName": MANAGER_PRIORITY_CLASS,
        "terminationGracePeriodSeconds": GRACE_PERIOD_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NON_ROOT,
            "runAsGroup": NON_ROOT,
            "fsGroup": NON_ROOT,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "labelSelector": {"matchLabels": dict(POD_LABELS)},
                            "topologyKey": "kubernetes.io/hostname",
                        },
                    }
                ]
            }
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": dict(POD_LABELS)},
            }
        ],
        "containers": [_build_manager_container(wanted)],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "log", "emptyDir": {}},
            *(
                [{"name": "webhook-clients", "configMap": {"name": wanted.client_authority}}]
                if wanted.client_authority
                else []
            ),
        ],
    }


def _build_manager_container(wanted: Installation) -> dict[str, Any]:
    return {
        "name": "manager",
        "image": wanted.image,
        "imagePullPolicy": "IfNotPresent",
        # Server-side apply may keep the command of OpenKruise's Deployment, so this command is the same.
        "command": ["/manager"],
        "args": list(_build_manager_flags(wanted)),
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "WEBHOOK_PORT", "value": str(wanted.webhook_port)},
        ],
        "ports": [
            {"name": WEBHOOK_PORT_NAME, "containerPort": wanted.webhook_port, "protocol": "TCP"},
            {"name": "metrics", "containerPort": wanted.metrics_port, "protocol": "TCP"},
            {"name": "health", "containerPort": wanted.health_port, "protocol": "TCP"},
        ],
        "readinessProbe": {"httpGet": {"path": "readyz", "port": wanted.health_port}},
        "livenessProbe": {
            "httpGet": {"path": "healthz", "port": wanted.health_port},
            "initialDelaySeconds": 60,
            "periodSeconds": 20,
        },
        "resources": {
            "limits": {"cpu": "1", "memory": "512Mi"},
            "requests": {"cpu": "100m", "memory": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "log", "mountPath": "/log"},
            *(
                [{"name": "webhook-clients", "mountPath": CLIENTS_FOLDER, "readOnly": True}]
                if wanted.client_authority
                else []
            ),
        ],
    }


def _build_manager_flags(wanted: Installation) -> Sequence[str]:
    return (
        "--enable-leader-election",
        f"--leader-election-namespace={wanted.namespace}",
        *([f"--shards={wanted.shards}"] if wanted.shards > 1 else []),
        f"--metrics-addr=:{wanted.metrics_port}",
        *(["--state-metrics"] if wanted.state_metrics else []),
        f"--health-probe-addr=:{wanted.health_port}",
        "--pprof-addr=localhost:8090",
        f"--v={wanted.verbosity}",
        "--sync-period=0",
        f"--feature-gates={wanted.feature_gates}",
        *([f"--webhook-client-ca-file={CLIENTS_FOLDER}/ca.crt"] if wanted.client_authority else []),
    )
