"""Configuration of the control plane's components: their files and command lines."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.pki import Authority, make_signing_key_pair
from testbed.processes import HOST

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"

ADMIN = "admin"
MANAGER = "manager"
# Addresses of the cluster of real nodes (node.py). They exist only in its own network namespaces.
SERVICE_RANGE = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"  # address of the Service "kubernetes"
GATEWAY_ADDRESS = "10.200.0.1"  # address of the API server and the registry for nodes and pods
MOST_NODES = 9
SERVICE_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)

PROXY = "kube-proxy"
USERS = {
    ADMIN: "admin",
    MANAGER: "system:serviceaccount:kruise-system:kruise-manager",
    CONTROLLER_MANAGER: "system:kube-controller-manager",
    SCHEDULER: "system:kube-scheduler",
}

MASTERS = "system:masters"
# The manager is not in system:masters. It has only the permissions of its roles in the cluster.
GROUPS = dict.fromkeys(USERS, MASTERS) | {
    MANAGER: "system:serviceaccounts,system:serviceaccounts:kruise-system"
}


def format_node_name(number: int) -> str:
    """Return the name of the real node with this number, 1 to MOST_NODES."""
    return f"node-{number}"


# Further users with real nodes: each kubelet has only the permissions of its node.
NODE_USERS = {
    **{
        format_node_name(number): f"system:node:{format_node_name(number)}"
        for number in range(1, MOST_NODES + 1)
    },
    PROXY: "system:kube-proxy",
}
NODE_GROUPS = dict.fromkeys(NODE_USERS, "system:nodes") | {PROXY: ""}

# Gates that are off by default in a minor and that the workloads need.
FEATURE_GATES: Mapping[str, Mapping[str, bool]] = {"1.32": {"InPlacePodVerticalScaling": True}}

# Admission plugins and controllers that are off without real nodes: with ServiceAccount, pods would wait for the
# controller manager, which may be left out. TaintNodesByCondition adds a taint to a new node, which would stay
# because no node-lifecycle controller runs.
ADMISSION_OFF = "ServiceAccount,TaintNodesByCondition"
CONTROLLERS = "*,-node-lifecycle-controller,-taint-eviction-controller"
CONTROLLERS_OF = {"1.28": "*,-nodelifecycle"}
"""The controllers in older minors, where `nodelifecycle` also does the work of the later taint-eviction-controller."""

# Requests per second, and burst: the client's own limits must not affect a benchmark.
QPS, BURST = 1000, 2000

EGRESS_CONFIG = """\
apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: {socket}
"""

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
"""

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: testbed
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: {user}
  user:
    token: {token}
contexts:
- name: testbed
  context:
    cluster: testbed
    user: {user}
current-context: testbed
"""

SCHEDULER_CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: {kubeconfig}
  qps: {qps}
  burst: {burst}
leaderElection:
  leaderElect: false
"""


@dataclass(frozen=True)
class Ports:
    """The port of each server."""

    etcd: int
    etcd_peer: int
    api_server: int
    controller_manager: int
    scheduler: int


@dataclass(frozen=True)
class Settings:
    """All values on which the command lines of one control plane depend."""

    directory: Path
    binaries: Path
    ports: Ports
    feature_gates: Mapping[str, bool]
    extra_args: Mapping[str, Sequence[str]]
    audit: bool
    heap_growth: int
    """Percentage by which a component's memory may grow before garbage is collected."""
    kubernetes: str = ""
    """The minor; empty: any current minor."""
    nodes: bool = False
    """Whether real nodes (node.py) may join."""
    authority: Authority = field(default_factory=Authority)
    tokens: Mapping[str, str] = field(
        default_factory=lambda: {name: secrets.token_urlsafe(32) for name in {**USERS, **NODE_USERS}}
    )

    @property
    def users(self) -> Mapping[str, str]:
        """Users that have a kubeconfig, each with its name in the API server."""
        return {**USERS, **NODE_USERS} if self.nodes else USERS

    @property
    def egress_socket(self) -> Path:
        """Socket at which the API server requests connections to nodes, pods and Services, if there are real nodes."""
        return self.find_file("egress.sock")

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of every component that are added to this process's environment."""
        return {"GOGC": str(self.heap_growth)}

    @property
    def url(self) -> str:
        """URL of the API server."""
        return f"https://{HOST}:{self.ports.api_server}"

    @property
    def nodes_url(self) -> str:
        """URL of the API server for real nodes and their pods."""
        return self.url.replace(HOST, GATEWAY_ADDRESS)

    def find_kubeconfig(self, name: str) -> Path:
        """Return the path of a user's kubeconfig; `name` is a key of `users`."""
        return self.directory / ("kubeconfig" if name == ADMIN else f"{name}.kubeconfig")

    def find_file(self, name: str) -> Path:
        """Return the path of a file in the control plane's folder."""
        return self.directory / name

    def write_files(self) -> None:
        """Write all files that the components read, readable only by the owner."""
        addresses = [HOST, *([SERVICE_ADDRESS, GATEWAY_ADDRESS] if self.nodes else [])]
        certificate, key = self.authority.issue_serving_pair(addresses, ["localhost", *SERVICE_NAMES])
        private, public = make_signing_key_pair()
        files = {
            "ca.crt": self.authority.certificate,
            "serving.crt": certificate,
            "serving.key": key,
            "service-account.key": private,
            "service-account.pub": public,
            "audit-policy.yaml": AUDIT_POLICY.encode(),
            "scheduler.yaml": self._scheduler_config().encode(),
        }
        if self.nodes:
            files["egress.yaml"] = EGRESS_CONFIG.format(socket=self.egress_socket).encode()
        files |= {self.find_kubeconfig(name).name: self._kubeconfig_of(name).encode() for name in self.users}
        for name, content in files.items():
            self._write(name, content)
        self.write_tokens()

    def write_tokens(self, *, without: Collection[str] = ()) -> None:
        """Write the tokens that the API server accepts from its next start on. Users in `without` get no token."""
        groups = {**GROUPS, **NODE_GROUPS}
        rows = [
            f'{self.tokens[name]},{user},{name},"{groups[name]}"\n'
            for name, user in self.users.items()
            if name not in without
        ]
        self._write("tokens.csv", "".join(rows).encode())

    def _write(self, name: str, content: bytes) -> None:
        path = self.find_file(name)
        path.touch(mode=0o600)
        path.write_bytes(content)

    def build_command(self, component: str) -> list[str]:
        """Return a component's command line."""
        arguments = {
            ETCD: self._etcd_flags,
            API_SERVER: self._api_server_flags,
            CONTROLLER_MANAGER: self._controller_manager_flags,
            SCHEDULER: self._scheduler_flags,
        }[component]()
        if component != ETCD and self.feature_gates:
            gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in self.feature_gates.items())
            arguments.append(f"--feature-gates={gates}")
        return [str(self.binaries / component), *arguments, *self.extra_args.get(component, ())]

    def _etcd_flags(self) -> list[str]:
        client = f"http://{HOST}:{self.ports.etcd}"
        peer = f"http://{HOST}:{self.ports.etcd_peer}"
        return [
            "--name=testbed",
            f"--data-dir={self.find_file('etcd')}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=testbed={peer}",
            "--heartbeat-interval=50",  # after a restart it has no other members to wait for
            "--election-timeout=250",
            "--unsafe-no-fsync",
            f"--quota-backend-bytes={8 * 2**30}",
            "--log-level=warn",
        ]

    def _api_server_flags(self) -> list[str]:
        arguments = [
            f"--etcd-servers=http://{HOST}:{self.ports.etcd}",
            *(self._flags_for_nodes() if self.nodes else self._flags_without_nodes()),
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            f"--token-auth-file={self.find_file('tokens.csv')}",
            "--allow-privileged=true",  # same as kubeadm
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.find_file('service-account.pub')}",
            f"--service-account-signing-key-file={self.find_file('service-account.key')}",
            *self._serving_flags(self.ports.api_server),
        ]
        if self.audit:
            arguments.append(f"--audit-policy-file={self.find_file('audit-policy.yaml')}")
            arguments.append(f"--audit-log-path={self.find_file('audit.log')}")
            # By default the log is rotated at 100 MB, and a reader of the file would miss most requests of a long run.
            arguments.append("--audit-log-maxsize=100000")
        return arguments

    def _flags_without_nodes(self) -> list[str]:
        return [
            f"--advertise-address={HOST}",
            "--endpoint-reconciler-type=none",
            "--authorization-mode=RBAC",
            f"--disable-admission-plugins={ADMISSION_OFF}",
        ]

    def _flags_for_nodes(self) -> list[str]:
        """Flags with which pods reach the API server, and the API server reaches nodes and pods, although it is outside
        their network.
        """
        return [
            f"--advertise-address={GATEWAY_ADDRESS}",
            f"--egress-selector-config-file={self.find_file('egress.yaml')}",
            "--enable-aggregator-routing=true",  # sends reviews directly to pods, not to the address of their Service
            "--kubelet-preferred-address-types=InternalIP",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
        ]

    def _controller_manager_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.find_kubeconfig(CONTROLLER_MANAGER)}",
            f"--kube-api-qps={QPS}",
            f"--kube-api-burst={BURST}",
            f"--controllers={'*' if self.nodes else CONTROLLERS_OF.get(self.kubernetes, CONTROLLERS)}",
            "--leader-elect=false",
            f"--root-ca-file={self.find_file('ca.crt')}",
            f"--service-account-private-key-file={self.find_file('service-account.key')}",
            *self._delegation_flags(CONTROLLER_MANAGER),
            *self._serving_flags(self.ports.controller_manager),
        ]

    def _scheduler_flags(self) -> list[str]:
        return [
            f"--config={self.find_file('scheduler.yaml')}",
            *self._delegation_flags(SCHEDULER),
            *self._serving_flags(self.ports.scheduler),
        ]

    def _serving_flags(self, port: int) -> list[str]:
        return [
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            f"--tls-cert-file={self.find_file('serving.crt')}",
            f"--tls-private-key-file={self.find_file('serving.key')}",
        ]

    def _delegation_flags(self, component: str) -> list[str]:
        """Flags with which a component checks at the API server who may read its metrics; clients send a token."""
        return [
            "--authentication-skip-lookup",
            f"--authentication-kubeconfig={self.find_kubeconfig(component)}",
            f"--authorization-kubeconfig={self.find_kubeconfig(component)}",
        ]

    def format_kubeconfig(self, user: str, token: str, *, url: str) -> str:
        """Return the text of a kubeconfig with this user, token and URL."""
        ca = base64.b64encode(self.authority.certificate).decode()
        return KUBECONFIG.format(url=url, ca=ca, user=user, token=token)

    def _kubeconfig_of(self, name: str) -> str:
        url = self.nodes_url if name in NODE_USERS else self.url
        return self.format_kubeconfig(self.users[name], self.tokens[name], url=url)

    def _scheduler_config(self) -> str:
        return SCHEDULER_CONFIG.format(kubeconfig=self.find_kubeconfig(SCHEDULER), qps=QPS, burst=BURST)
