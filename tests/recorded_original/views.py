"""Objects without values that depend on the run: names with a random end, uids, times, hashes, versions.

Views(namespace).scene(objects, events) ──▶ {"objects": {"CloneSet web": {…}}, "pods": […], "events": […]}

A pod is shown by its labels, annotations, owner, containers, restarts and readiness. Conditions are shown by type, with
status and reason. Revisions are numbered in the order in which they were first seen.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pykruise.kube.errors import ApiError
from recorded_original.language import NAMESPACE, Document

__all__ = ["Views"]

_UID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_CONTAINER: Final = re.compile(r"\bcontainerd://[0-9a-f]{64}\b")
_NODE: Final = re.compile(r"\bnode-[1-9]\b")
_ZONE: Final = re.compile(r"^z[1-9]$")
_CRON_END: Final = re.compile(r"-\d{8,10}\b")
_PATH: Final = re.compile(
    r"((?:spec|metadata|status)(?:\.[A-Za-z0-9_-]+|\[[^\]]*\])*): "
    r"(?:Invalid value|Required value|Forbidden|Unsupported value|Duplicate value|Too many|Not found|Internal error)"
)
_TOKEN: Final = "kube-api-access-"
_OF_EVERY_POD: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_KUBELETS: Final = frozenset(
    {
        "Ready",
        "ContainersReady",
        "Initialized",
        "PodScheduled",
        "PodReadyToStartContainers",
        "DisruptionTarget",
        "PodResizePending",
        "PodResizeInProgress",
    }
)
_BUILTIN_SPEAKERS: Final = frozenset({"kubelet", "default-scheduler", "kubelets", "sandbox"})
_NODES: Final = ("apps.kruise.io/runtime-containers-meta",)
"""Annotations that the node agent writes on pods. Both sides run pykruise's agent."""
_ORDINAL: Final = "statefulset.kubernetes.io/pod-name"
"""Label of pods whose names are the same in every run."""
_HASHES: Final = ("pod-template-hash", "controller-revision-hash", "latestRevision")
_ADDRESSES: Final = ("clusterIP", "clusterIPs")
_OF_THE_AGENT: Final = ("KruiseProbeSucceeded", "KruiseProbeFailed")
"""Events that the node agent records. Both sides run pykruise's agent."""
_SIDECAR_VERSIONS: Final = ("version.sidecarset.kruise.io/", "versionalt.sidecarset.kruise.io/")
"""Annotations of pods whose values are resource versions."""
_VOLUMES: Final = ("pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/")
_PLANES: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
"""Labels that newer API servers copy from a pod's node."""
_OF_CLAIMS: Final = ("accessModes", "resources")
"""Fields of claims that do not depend on the provisioner of volumes."""


class Views:
    """Views of one scenario, which number its names and revisions."""

    def __init__(self, namespace: str, *, shows_nodes: bool) -> None:
        self._namespace = namespace
        self._shows_nodes = shows_nodes
        self._revisions: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def refusal(self, error: ApiError) -> Document:
        """Code of the error, and the paths of the fields that it names."""
        status = error.status
        causes = {cause.field for cause in (status.details.causes if status.details else ()) if cause.field}
        fields = causes or set(_PATH.findall(status.message))
        return {"refused": error.code, "fields": sorted(fields)}

    def stored(self, document: Document) -> Document:
        """The object that a write stores."""
        return self._object(document)

    def scene(self, documents: list[Document], events: Iterable[Document]) -> Document:
        """All objects and events; pods in an order that does not depend on their names."""
        for document in documents:
            self._note(document)
        pods = [self._pod(document) for document in documents if document["kind"] == "Pod"]
        others: dict[str, list[Document]] = {}
        for entry in documents:
            if entry["kind"] not in ("Pod", "ControllerRevision") and not _is_of_every_namespace(entry):
                name = f"{_kind_of(entry)} {self._text(entry['metadata']['name'])}"
                others.setdefault(name, []).append(self._object(entry))
        revisions = [document for document in documents if document["kind"] == "ControllerRevision"]
        return {
            "objects": {
                name: known[0] if len(known) == 1 else sorted(known, key=_json)
                for name, known in sorted(others.items())
            },
            "pods": sorted(pods, key=_json),
            "revisions": sorted(
                f"{self._text(revision['metadata']['name'])} is {revision['revision']}"
                for revision in revisions
            ),
            "events": sorted({event for item in events if (event := self._event(item))}),
        }

    # ── names ────────────────────────────────────────────────────────────────

    def _note(self, document: Document) -> None:
        """Remember the parts of a name that differ from run to run."""
        metadata = document["metadata"]
        name, labels = metadata["name"], metadata.get("labels") or {}
        if document["kind"] == "ControllerRevision":
            if name not in self._revisions:
                owner = name.rpartition("-")[0]
                number = sum(known.rpartition("-")[0] == owner for known in self._revisions) + 1
                self._revisions[name] = f"{owner}-<revision {number}>"
                self._names.setdefault(name.rpartition("-")[2], f"<revision {number}>")
            self._names[name] = self._revisions[name]
        elif (generated := metadata.get("generateName")) and _ORDINAL not in labels:
            self._names.setdefault(name, f"{generated}*")
        for label in ("apps.kruise.io/cloneset-instance-id", "pod-template-hash"):
            if labels.get(label):
                self._names.setdefault(labels[label], "*")

    def _text(self, text: str) -> str:
        text = _TIME.sub("<time>", _UID.sub("<uid>", text.replace(self._namespace, NAMESPACE)))
        text = _CONTAINER.sub("<container>", text)
        if not self._shows_nodes:
            text = _ZONE.sub("<zone>", _NODE.sub("<node>", text))
        for name in sorted(self._names, key=len, reverse=True):
            if name in text:
                text = text.replace(name, self._names[name])
        return _CRON_END.sub("-<time>", text)

    # ── objects ──────────────────────────────────────────────────────────────

    def _meta(self, document: Document) -> Document:
        metadata = document["metadata"]
        result: Document = {
            "labels": self._value(
                {name: text for name, text in (metadata.get("labels") or {}).items() if name not in _PLANES}
            ),
            "annotations": {
                name: self._annotation(_unversioned(text) if name.startswith(_SIDECAR_VERSIONS) else text)
                for name, text in (metadata.get("annotations") or {}).items()
                if name not in _NODES and not name.startswith(_VOLUMES)
            },
            "finalizers": metadata.get("finalizers") or [],
            "owners": [
                f"{owner['kind']} {self._text(owner['name'])}{' controls' * bool(owner.get('controller'))}"
                for owner in metadata.get("ownerReferences") or ()
            ],
        }
        if metadata.get("deletionTimestamp"):
            result["isDeleted"] = True
        return {name: value for name, value in result.items() if value}

    def _object(self, document: Document) -> Document:
        result = self._meta(document)
        if document["kind"] == "PersistentVolumeClaim":
            return result | {"spec": self._value({name: document["spec"][name] for name in _OF_CLAIMS})}
        for field, value in document.items():
            if field not in ("apiVersion", "kind", "metadata", "status"):
                result[field] = self._value(value)
        if status := document.get("status"):
            result["status"] = self._status(status, document["metadata"].get("generation"))
        return result

    def _status(self, status: Document, generation: Any) -> Document:
        result: Document = {}
        for field, value in status.items():
            if field == "conditions":
                result[field] = {
                    item["type"]: f"{item['status']} {item.get('reason', '')}".strip() for item in value or ()
                }
            elif field == "observedGeneration":
                result[field] = "<current>" if value == generation else "<older>"
            else:
                result |= self._value({field: value})
        return result

    def _pod(self, pod: Document) -> Document:
        spec, status = pod["spec"], pod.get("status") or {}
        result = {"name": self._text(pod["metadata"]["name"]), **self._meta(pod)}
        restarts = {
            item["name"]: item["restartCount"]
            for field in ("initContainerStatuses", "containerStatuses")
            for item in status.get(field) or ()
        }
        conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
        for field in ("initContainers", "containers"):
            if spec.get(field):
                result[field] = [self._container(item) for item in spec[field]]
        result |= {
            "restarts": {name: count for name, count in restarts.items() if count},
            "phase": status.get("phase", ""),
            "isReady": conditions.get("Ready", {}).get("status") == "True",
            "conditions": {
                name: f"{condition['status']} {condition.get('reason', '')}".strip()
                for name, condition in conditions.items()
                if name not in _KUBELETS
            },
            "volumes": [
                self._value(volume)
                for volume in spec.get("volumes") or ()
                if not volume["name"].startswith(_TOKEN)
            ],
            "tolerations": [
                toleration
                for toleration in spec.get("tolerations") or ()
                if toleration.get("key") not in _OF_EVERY_POD
            ],
        }
        for field in (
            "affinity",
            "nodeSelector",
            "readinessGates",
            "hostname",
            "subdomain",
            "priorityClassName",
        ):
            if spec.get(field):
                result[field] = self._value(spec[field])
        if self._shows_nodes:
            result["node"] = spec.get("nodeName", "")
        return {name: value for name, value in result.items() if value or name == "isReady"}

    def _container(self, container: Document) -> Document:
        mounts = [
            mount for mount in container.get("volumeMounts") or () if not mount["name"].startswith(_TOKEN)
        ]
        shown = (
            "name",
            "image",
            "env",
            "command",
            "args",
            "resources",
            "lifecycle",
            "ports",
            "restartPolicy",
        )
        result = {name: self._value(container[name]) for name in shown if container.get(name)}
        return {**result, "volumeMounts": self._value(mounts)} if mounts else result

    def _event(self, event: Document) -> str:
        about = event["involvedObject"]
        speaker = (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""
        is_own = about.get("namespace") == self._namespace or about["name"].startswith(self._namespace)
        if not is_own or speaker in _BUILTIN_SPEAKERS or event["reason"] in _OF_THE_AGENT:
            return ""
        if about["kind"] != "Pod" and "kruise.io" not in about.get("apiVersion", ""):
            return ""
        return f"{about['kind']} {self._text(about['name'])}: {event['type']} {event['reason']}"

    # ── values ───────────────────────────────────────────────────────────────

    def _annotation(self, text: str) -> Any:
        if text[:1] in ("{", "["):
            try:
                return self._value(json.loads(text))
            except ValueError:
                pass
        return self._text(text)

    def _value(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {
                self._text(name): _hash(self._text(part)) if name in _HASHES else self._value(part)
                for name, part in value.items()
                if name != "resourceVersion" and name not in _ADDRESSES
            }
        if isinstance(value, list):
            return [self._value(item) for item in value]
        return self._text(value) if isinstance(value, str) else value


def _kind_of(document: Document) -> str:
    is_builtin = document["apiVersion"] == "apps/v1" and document["kind"] in ("StatefulSet", "DaemonSet")
    return f"{document['kind']}.apps" if is_builtin else str(document["kind"])


def _is_of_every_namespace(document: Document) -> bool:
    return (document["kind"], document["metadata"]["name"]) == ("ConfigMap", "kube-root-ca.crt")


def _unversioned(text: str) -> str:
    """`<version>` for a resource version; 0 and 1 stay, because they have a meaning."""
    return text if text in ("0", "1") else "<version>"


def _hash(text: str) -> str:
    """`<hash>` for a hash, unless the hash of a known revision was replaced by its number."""
    return text if "<revision" in text else "<hash>"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
