"""The work of every client of a cluster: each kind in each version that the CRDs serve.

    place.work("kr8s") ──▶ Work(api_version, kind, plural, …, document), one for each kind and version
    Client ──▶ do_all(client, place, work): list, create, watch, patch, scale, status, delete

A kind without a sample fails the test (`samples_of`), so a new kind must have one. Agents create NodeImages and
NodePodProbes, and the manager deletes those of other clients, so clients change the existing ones.
"""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from pykruise.kinds import build_crds, list_conversions
from pykruise.kube.schemas.conversion import convert

__all__ = ["NAMESPACE", "SEEN_BY", "Client", "Document", "Place", "Work", "do_all", "served"]

Document = dict[str, Any]

NAMESPACE: Final = "clients"
SEEN_BY: Final = "example.com/seen-by"
_APP: Final = "looked-at"
_MADE_BY_AGENTS: Final = ("NodeImage", "NodePodProbe")
_LONGEST_S: Final = 120.0


class Work(NamedTuple):
    """One kind in one version."""

    api_version: str
    kind: str
    plural: str
    is_namespaced: bool
    has_scale: bool
    is_created: bool
    """Whether the client creates and deletes the object; otherwise it exists already."""
    mark: str
    """The value of the annotation that the client writes; it differs for each piece of work."""
    document: Document

    @property
    def group(self) -> str:
        """The API group."""
        return self.api_version.partition("/")[0]

    @property
    def version(self) -> str:
        """The version without its group."""
        return self.api_version.partition("/")[2]

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(self.document["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        """The namespace of the object; None: it has none."""
        return NAMESPACE if self.is_namespaced else None


class Client(Protocol):
    """A client for one kind in one version. Documents are those of the API server."""

    def list_names(self) -> list[str]: ...

    def create(self) -> Document: ...

    def patch_and_watch(self, patch: Document) -> Document:
        """Watch the kind, merge the patch, and return the object of the first event that shows it."""
        ...

    def scale(self, replicas: int) -> Document:
        """Write the scale, and return the new one."""
        ...

    def status(self) -> Document:
        """Read the status subresource."""
        ...

    def patch_status(self, patch: Document) -> Document: ...

    def delete(self) -> None: ...


class Place:
    """A cluster with pykruise, and the objects that clients need. `kubectl`: its path.

    `only_stored`: clients use only the stored version of each kind.
    """

    def __init__(self, kubeconfig: Path, kubectl: str, *, only_stored: bool = False) -> None:
        self.kubeconfig = kubeconfig
        self._kubectl = kubectl
        self._only_stored = only_stored

    def prepare(self) -> None:
        """Create pods that agents look at, and return when agents have made their objects."""
        self.kubectl("create", "namespace", NAMESPACE)
        for document in (_pods_to_look_at(), _probes()):
            self.kubectl("apply", "-f", "-", text=json.dumps(document))
        self._until(lambda: self._names("nodepodprobes") and self._names("nodeimages"))
        self._until(self._pod_is_ready)

    def clear(self) -> None:
        """Delete all objects of clients."""
        self.kubectl("delete", "namespace", NAMESPACE, "--timeout=120s")

    def kubectl(self, *words: str, text: str | None = None) -> str:
        """The output of kubectl; it must succeed."""
        command = [self._kubectl, f"--kubeconfig={self.kubeconfig}", *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

    def work(self, client: str, *, in_every_version: bool = False) -> Iterator[Work]:
        """One piece of work for each kind and version. `client`: a part of the objects' names. `in_every_version`: also
        where the place uses the stored version only.
        """
        pod = self._names("pods", "-n", NAMESPACE, "-l", f"app={_APP}")[0]
        samples = samples_of(pod)
        for crd, version in served():
            if self._only_stored and not in_every_version and not version["storage"]:
                continue
            group, names = crd["spec"]["group"], crd["spec"]["names"]
            api_version, kind = f"{group}/{version['name']}", names["kind"]
            is_created = kind not in _MADE_BY_AGENTS
            is_namespaced = crd["spec"]["scope"] == "Namespaced"
            document = (
                _in_version(samples[kind], api_version)
                if is_created
                else {"metadata": {"name": self._names(names["plural"])[0]}}
            )
            if is_created:
                document["metadata"] = {"name": f"{client}-{version['name']}"}
            if is_namespaced:
                document["metadata"]["namespace"] = NAMESPACE
            has_scale = "scale" in version["subresources"]
            yield Work(
                api_version,
                kind,
                names["plural"],
                is_namespaced,
                has_scale,
                is_created,
                f"{client}-{version['name']}",
                document,
            )

    def _names(self, *words: str) -> list[str]:
        items = json.loads(self.kubectl("get", *words, "-o", "json"))["items"]
        return [item["metadata"]["name"] for item in items]

    def _pod_is_ready(self) -> bool:
        words = ("get", "pods", "-n", NAMESPACE, "-l", f"app={_APP}", "-o", "json")
        pods = json.loads(self.kubectl(*words))["items"]
        conditions = pods[0].get("status", {}).get("conditions", ()) if pods else ()
        return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)

    def _until(self, claim: Any) -> None:
        end = time.monotonic() + _LONGEST_S
        while not claim():
            assert time.monotonic() < end
            time.sleep(0.3)


def served() -> Iterator[tuple[Document, Document]]:
    """Each definition with each version that it serves."""
    for crd in build_crds():
        for version in crd["spec"]["versions"]:
            if version["served"]:
                yield crd, version


def do_all(client: Client, work: Work) -> None:
    """Requests of a client for one kind in one version, and their expected results."""
    if work.is_created:
        assert client.create()["kind"] == work.kind
    assert work.name in client.list_names()
    seen = client.patch_and_watch({"metadata": {"annotations": {SEEN_BY: work.mark}}})
    assert (seen["apiVersion"], seen["metadata"]["annotations"][SEEN_BY]) == (work.api_version, work.mark)
    if work.has_scale:
        scale = client.scale(1)
        assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 1)
        assert "replicas" in scale["status"]
    status = client.status()
    assert status["metadata"]["name"] == work.name
    # then the subresource writes only the status
    unchanged = {"status": status["status"]} if "status" in status else {}
    changed = client.patch_status({"metadata": {"annotations": {SEEN_BY: "status"}}, **unchanged})
    assert changed["metadata"]["annotations"][SEEN_BY] == work.mark
    if work.is_created:
        client.delete()


def _in_version(document: Document, api_version: str) -> Document:
    document = json.loads(json.dumps(document))
    return (
        document
        if document["apiVersion"] == api_version
        else convert(document, api_version, list_conversions())
    )


def _template(app: str) -> Document:
    containers = [{"name": "main", "image": "web:1"}]
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": containers},
    }


def _selects(app: str) -> Document:
    return {"selector": {"matchLabels": {"app": app}}}


def _pods_to_look_at() -> Document:
    return _object("CloneSet", {"replicas": 1, **_selects(_APP), "template": _template(_APP)}, name=_APP)


def _probes() -> Document:
    probe = {"name": "idle", "containerName": "main", "probe": {"exec": {"command": ["true"]}}}
    probe["podConditionType"] = "example.com/idle"
    return _object("PodProbeMarker", {**_selects(_APP), "probes": [probe]}, name=_APP)


def _object(kind: str, spec: Document, *, name: str = "sample") -> Document:
    versions = {crd["spec"]["names"]["kind"]: crd for crd, _ in served()}
    definition = versions[kind]["spec"]
    stored = next(item["name"] for item in definition["versions"] if item["storage"])
    namespace = {"namespace": NAMESPACE} if definition["scope"] == "Namespaced" else {}
    api_version = f"{definition['group']}/{stored}"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **namespace}, "spec": spec}


def samples_of(pod: str) -> Mapping[str, Document]:
    """A small object of each kind that users create, as it is stored. `pod`: the name of a ready pod."""
    nowhere = _template("none")
    nowhere["spec"]["nodeSelector"] = {"example.com/no": "node"}
    once = _template("once")
    once["spec"] |= {"restartPolicy": "Never", "nodeSelector": {"example.com/no": "node"}}
    workload = {"replicas": 0, **_selects("none"), "template": nowhere}
    never = {"type": "Never"}
    target = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "none"}
    specs: dict[str, Document] = {
        "AdvancedCronJob": {
            "schedule": "0 0 1 1 *",
            "paused": True,
            "template": {"jobTemplate": {"spec": {"template": once}}},
        },
        "BroadcastJob": {"template": once, "completionPolicy": {"type": "Always"}},
        "CloneSet": workload,
        "ContainerRecreateRequest": {"podName": pod, "containers": [{"name": "main"}]},
        "DaemonSet": {**_selects("none"), "template": nowhere},
        "EphemeralJob": {
            **_selects("none"),
            "template": {
                "ephemeralContainers": [
                    {
                        "name": "look",
                        "image": "busybox:1",
                        "imagePullPolicy": "IfNotPresent",
                        "terminationMessagePolicy": "File",
                    }
                ]
            },
        },
        "ImageListPullJob": {"images": ["web:7"], "completionPolicy": never, "selector": {"names": []}},
        "ImagePullJob": {"image": "web:8", "completionPolicy": never, "selector": {"names": []}},
        "PersistentPodState": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "none"},
            "preferredPersistentTopology": [
                {"preference": {"keys": ["kubernetes.io/hostname"]}, "weight": 100}
            ],
        },
        "PodProbeMarker": {**_selects("none"), "probes": _probes()["spec"]["probes"]},
        "PodUnavailableBudget": {**_selects("none"), "maxUnavailable": 1},
        "ResourceDistribution": {
            "resource": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "shared"},
                "data": {"a": "b"},
            },
            "targets": {"namespaceSelector": {"matchLabels": {"example.com/no": "namespace"}}},
        },
        "SidecarSet": {
            **_selects("no-pods-have-it"),
            "containers": [{"name": "log", "image": "log:1"}],
        },
        "StatefulSet": {**workload, "serviceName": "none"},
        "UnitedDeployment": {
            **_selects("none"),
            "replicas": 0,
            "template": {
                "cloneSetTemplate": {
                    "metadata": nowhere["metadata"],
                    "spec": {**_selects("none"), "template": nowhere},
                }
            },
            "topology": {"subsets": [{"name": "a"}]},
        },
        "WorkloadSpread": {"targetRef": target, "subsets": [{"name": "a", "maxReplicas": 1}, {"name": "b"}]},
    }
    kinds = {crd["spec"]["names"]["kind"] for crd, _ in served()}
    assert {*specs, *_MADE_BY_AGENTS} == kinds, "each kind needs a sample"
    return {kind: _object(kind, spec) for kind, spec in specs.items()}
