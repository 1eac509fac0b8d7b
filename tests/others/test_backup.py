"""A backup of all kinds is restored into a new cluster as Velero does it: pods first, without owners; nothing rolls.

What a backup tool keeps of an object: its name, namespace, labels, annotations and spec. UIDs, owners and statuses are
new or gone, so controllers have to take over pods and revisions by what these say themselves.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from others.cluster import Cluster, Document
from others.conftest import Loop
from switch_over.objects import objects_at_rest
from testbed.build import CONTROL_PLANE, Part, default_version
from testbed.control_plane import ControlPlane

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(900)]

WORKLOADS: Final = (
    *(
        "clonesets.apps.kruise.io",
        "statefulsets.apps.kruise.io",
        "daemonsets.apps.kruise.io",
        "uniteddeployments",
    ),
    *("deployments.apps", "statefulsets.apps"),
)
ORDER: Final = (
    *("configmaps", "secrets", "serviceaccounts", "priorityclasses", "persistentvolumeclaims", "pods"),
    "replicasets.apps",
    *("advancedcronjobs", "controllerrevisions.apps", "persistentpodstates", "podprobemarkers"),
    *("podunavailablebudgets", "resourcedistributions", "sidecarsets", "workloadspreads"),
    *WORKLOADS,
)
"""Kinds in the order in which they are restored: pods before what owns them."""

JOBS: Final = ("BroadcastJob", "ImagePullJob", "ImageListPullJob", "AdvancedCronJob")
"""They run again when they are restored, as a Job of Kubernetes does, so a backup leaves them out."""

OF_THE_CLUSTER: Final = ("kube-root-ca.crt", "default")
NAMESPACE: Final = "default"


@pytest.fixture
def two(needed: Callable[[Part, str], Path], loop: Loop, tmp_path: Path) -> Iterator[tuple[Cluster, Cluster]]:
    """Two clusters with pykruise; the second is started by the test."""
    needed(CONTROL_PLANE, default_version())
    clusters: list[Cluster] = []
    try:
        for name in ("old", "new"):
            (tmp_path / name).mkdir()
            clusters.append(Cluster(loop.run(ControlPlane.start()), tmp_path / name))
        yield clusters[0], clusters[1]
    finally:
        for cluster in clusters:
            cluster.stop()
            loop.run(cluster.plane.stop())


def backup(cluster: Cluster) -> dict[str, list[Document]]:
    """The objects of each kind, as a backup tool writes them back."""
    kept: dict[str, list[Document]] = {}
    for kind in ORDER:
        listed = json.loads(cluster.kubectl("get", kind, "-A", "-o", "json", check=True))["items"]
        kept[kind] = [restorable(item) for item in listed if is_kept(item)]
    return kept


def is_kept(item: Document) -> bool:
    metadata = item["metadata"]
    return (
        metadata.get("namespace", NAMESPACE) == NAMESPACE
        and metadata["name"] not in OF_THE_CLUSTER
        and not metadata["name"].startswith("system-")
        and item["kind"] not in JOBS
        and "deletionTimestamp" not in metadata
        and (item.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    )


def restorable(item: Document) -> Document:
    metadata = item["metadata"]
    kept = {
        name: metadata[name] for name in ("name", "namespace", "labels", "annotations") if name in metadata
    }
    result = {name: value for name, value in item.items() if name != "status"} | {"metadata": kept}
    if item["kind"] == "Pod":
        spec = dict(item["spec"])
        spec.pop("nodeName", None)
        spec.pop("priority", None)
        result["spec"] = spec
    if item["kind"] == "PersistentVolumeClaim":
        result["spec"] = {name: value for name, value in item["spec"].items() if name != "volumeName"}
        kept["annotations"] = {
            name: text for name, text in kept.get("annotations", {}).items() if "kubernetes.io" not in name
        }
    return result


def pods(cluster: Cluster) -> dict[str, tuple[str, str, str]]:
    """By name: UID, images and revision of each pod that stays."""
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            ",".join(container["image"] for container in pod["spec"]["containers"]),
            pod["metadata"]["labels"].get("controller-revision-hash", ""),
        )
        for pod in cluster.list("pods")
        if "deletionTimestamp" not in pod["metadata"]
    }


async def settled(
    cluster: Cluster, *, all_ready: bool = True, quiet_s: float = 8.0, within_s: float = 180.0
) -> None:
    """Return when the pods have not changed for a while. `all_ready`: and are ready, too."""
    end, last, since = time.monotonic() + within_s, pods(cluster), time.monotonic()
    while time.monotonic() < end:
        await asyncio.sleep(1)
        now = pods(cluster)
        if now != last or (all_ready and unready(cluster)):
            last, since = now, time.monotonic()
        elif time.monotonic() - since > quiet_s:
            return
    raise AssertionError(f"pods go on changing, or are not ready: {unready(cluster)}")


def unready(cluster: Cluster) -> dict[str, Any]:
    """Pods that are not ready, with the conditions that say so."""

    def missing(pod: Document) -> list[str]:
        conditions: list[Any] = (pod.get("status") or {}).get("conditions") or []
        if any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions):
            return []
        return [
            f"{item['type']}: {item.get('message', '')}" for item in conditions if item["status"] != "True"
        ] or ["none"]

    return {pod["metadata"]["name"]: why for pod in cluster.list("pods") if (why := missing(pod))}


@pytest.mark.program(
    "backup and restore as Velero does it",
    "",
    "workloads, sidecars, budgets into a new cluster: no pod is made again",
)
def test_a_restore_into_a_new_cluster_touches_no_pod(two: tuple[Cluster, Cluster], loop: Loop) -> None:
    old, new = two
    # given a cluster with workloads of every kind, at rest
    loop.run(old.start())
    served = dict.fromkeys(
        ("CloneSet", "StatefulSet", "DaemonSet", "UnitedDeployment"), frozenset({"v1beta1"})
    )
    wanted = [item for item in objects_at_rest(served) if item["kind"] not in JOBS]
    old.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump_all(wanted), check=False)
    loop.run(settled(old))
    kept = backup(old)
    assert len(kept["pods"]) > 40
    # when it is restored into a new one, kind after kind, while the manager works
    loop.run(new.start())
    for kind in ORDER:
        if kept[kind]:
            new.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump_all(kept[kind]))
        if kind == "pods":
            loop.run(settled(new, all_ready=False))  # some wait for a gate that their workload opens
            restored = pods(new)
    loop.run(settled(new))
    # then every pod is the one that was restored
    after = pods(new)
    lost = {name: value for name, value in restored.items() if after.get(name) != value}
    more = {name: value for name, value in after.items() if name not in restored}
    assert (lost, more) == ({}, {})
    # and every one has an owner again
    owned = {pod["metadata"]["name"]: pod["metadata"].get("ownerReferences") for pod in new.list("pods")}
    assert [name for name, owners in owned.items() if not owners] == []
