"""Configuration of real nodes: the files and command lines of their programs. Pure.

A node shares the machine's file system, except for its own /run, /var/lib and /var/log. So programs and DaemonSets
find everything of the node in the usual places: containerd's socket in /run/containerd, kubelet's folder
/var/lib/kubelet, logs of pods in /var/log/pods.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.settings import GATEWAY_ADDRESS, MOST_NODES

CNI_PROGRAMS = Path("/usr/lib/cni")
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

CRI_SOCKET = "/run/containerd/containerd.sock"
CNI_FOLDER = "/run/cni/net.d"
KUBELET_PORT = 10250
KUBELET_HEALTH_PORT = 10248
PAUSE_IMAGE = "registry.test/pause:1"
POD_RANGE = "10.244.0.0/16"

# Programs would set these for the whole machine, so a node has files in their place.
SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)

BOOT = """\
# The first process of a node. All others of it, and its mounts and its network, end with it.
set -eu
mount --make-rshared /
mkdir -p {disk}/containerd {disk}/kubelet {disk}/log
for own in run etc; do rm -rf {directory}/$own; mkdir {directory}/$own; done
mount --bind {directory}/run /run
mount -t tmpfs tmpfs /var/lib
mkdir /var/lib/containerd /var/lib/kubelet /run/containerd /run/cni
mount --bind {disk}/containerd /var/lib/containerd
mount --bind {disk}/kubelet /var/lib/kubelet
mount --bind {disk}/log /var/log
mount --make-rshared /
for name in {sysctls}; do
    mkdir -p {directory}/etc/sysctl/$(dirname $name)
    cat /proc/sys/$name > {directory}/etc/sysctl/$name
    mount --bind {directory}/etc/sysctl/$name /proc/sys/$name
done
(cat /etc/hosts; echo {address} {name}) > {directory}/etc/hosts
mount --bind {directory}/etc/hosts /etc/hosts
hostname {name}
echo 1 > /proc/sys/net/ipv4/ip_forward
ip link set lo up
touch {directory}/run/booted
while :; do sleep 3600 & wait $!; done
"""

CONTAINERD = f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{CRI_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PROGRAMS}"
    conf_dir = "{CNI_FOLDER}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/run/containerd/registries"
"""

REGISTRIES = f"""\
server = "http://{GATEWAY_ADDRESS}"
[host."http://{GATEWAY_ADDRESS}"]
  capabilities = ["pull", "resolve"]
"""


def address_of(number: int) -> str:
    """Return the address of a node."""
    return f"10.200.0.{10 + number}"


def pods_of(number: int) -> str:
    """Return the address range of a node's pods."""
    return f"10.244.{number}.0/24"


def boot_script(*, name: str, number: int, directory: Path) -> str:
    """Return the script of a node's first process. The node's disk, in `directory`, stays between boots."""
    return BOOT.format(
        name=name,
        address=address_of(number),
        directory=directory,
        disk=directory / "disk",
        sysctls=" ".join(SYSCTLS),
    )


def list_network_commands(number: int) -> list[str]:
    """Return arguments of ``ip`` for a node's namespace, which already contains its eth0."""
    routes = [
        f"route add {pods_of(other)} via {address_of(other)}"
        for other in range(1, MOST_NODES + 1)
        if other != number
    ]
    return [
        f"address add {address_of(number)}/24 dev eth0",
        "link set eth0 up",
        f"route add default via {GATEWAY_ADDRESS}",
        *routes,
    ]


def run_files(number: int, kubelet: Mapping[str, Any], *, cgroup: str) -> dict[str, str]:
    """Return the files below a node's /run, which are written at each boot. `kubelet` changes fields of its
    configuration.
    """
    return {
        "containerd/config.toml": CONTAINERD,
        "containerd/registries/_default/hosts.toml": REGISTRIES,
        "cni/net.d/10-pods.conflist": json.dumps(_pod_network(number)),
        "resolv.conf": f"nameserver {GATEWAY_ADDRESS}\n",
        "kubelet.yaml": json.dumps({**_kubelet_config(cgroup), **kubelet}),
        "kube-proxy.yaml": json.dumps(_proxy_config()),
    }


def _pod_network(number: int) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": pods_of(number)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni/addresses",
    }
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}


def _kubelet_config(cgroup: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",
        "port": KUBELET_PORT,
        "healthzBindAddress": "0.0.0.0",
        "healthzPort": KUBELET_HEALTH_PORT,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{CRI_SOCKET}",
        "clusterDNS": [GATEWAY_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": "/run/resolv.conf",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "staticPodPath": "",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "evictionHard": {"memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 99,
        "imageGCLowThresholdPercent": 98,
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
        "serializeImagePulls": False,
        "maxPods": 110,
    }


def _proxy_config() -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": POD_RANGE,
        "clientConnection": {"kubeconfig": "/run/kube-proxy.kubeconfig"},
        "iptables": {"masqueradeAll": True, "syncPeriod": "30s", "minSyncPeriod": "0s"},
        "conntrack": {"maxPerCore": 0, "min": 0},
        "oomScoreAdj": 0,
        "healthzBindAddress": "",
        "metricsBindAddress": "",
    }
