"""Rules of the core group's plain objects: namespaces, nodes, ConfigMaps, Secrets, ServiceAccounts, events, Endpoints.

    an object as sent ──▶ …Strategy ──▶ the object as stored, or Causes

Pure.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import Document, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_forbidden_error,
    make_invalid_error,
    make_required_error,
    make_too_long_error,
)
from pykruise.kube.pod_rules.field_rules import (
    Causes,
    check_config_key,
    check_one_of,
    check_qualified_name,
    check_quantity_not_negative,
)
from pykruise.kube.pod_rules.names import is_valid_label_value
from pykruise.kube.schemas.builtin_types import Decoder
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.builtin.strategy import BuiltinStrategy, keep

Doc = Mapping[str, Any]
_MAX_DATA: Final = 1024 * 1024


def _label_with_name(doc: Document) -> None:
    metadata = doc.get("metadata") or {}
    if name := metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}


class NamespaceStrategy(BuiltinStrategy):
    """Namespaces: Active, with the `kubernetes` finalizer until all their objects are deleted."""

    has_status = True

    def default(self, doc: Document) -> Document:
        _label_with_name(doc)
        doc.setdefault("status", {}).setdefault("phase", "Active")
        return doc

    def prepare_create(self, doc: Document) -> Document:
        _label_with_name(doc)  # set again, because a generated name is not known when the defaults are set
        doc["status"] = {"phase": "Active"}
        spec = doc.setdefault("spec", {})
        finalizers = spec.get("finalizers") or []
        if "kubernetes" not in finalizers:
            spec["finalizers"] = [*finalizers, "kubernetes"]
        return doc

    def prepare_update(self, new: Document, old: Document) -> Document:
        keep(new, old, "status")
        keep(new.setdefault("spec", {}), old.get("spec") or {}, "finalizers")
        return new

    def validate_create(self, doc: Document) -> list[Cause]:
        causes: list[Cause] = []
        for name in (doc.get("spec") or {}).get("finalizers") or ():
            causes += check_finalizer(name, "spec.finalizers")
        return causes

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        return []

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        ending = bool((new.get("metadata") or {}).get("deletionTimestamp"))
        phase = (new.get("status") or {}).get("phase") or ""
        if phase == ("Terminating" if ending else "Active"):
            return []
        only, state = ("'Terminating'", "not empty") if ending else ("'Active'", "empty")
        return [
            make_invalid_error("status.Phase", phase, f"may only be {only} if `deletionTimestamp` is {state}")
        ]


def finalize_namespace(new: Document, old: Document) -> Document:
    """Return the new namespace. It keeps its finalizers, and gets the rest of the spec and the status of the old
    namespace (namespaces/finalize).
    """
    spec = dict(old.get("spec") or {})
    keep(spec, new.get("spec") or {}, "finalizers")
    finalizers = spec.get("finalizers")
    if not finalizers:
        spec.pop("finalizers", None)
    return {**new, "spec": spec, "status": old.get("status") or {}}


def check_finalizer(name: str, path: str) -> Causes:
    """Check that a finalizer has a domain, or is one of Kubernetes' own finalizers, which have none."""
    yield from check_qualified_name(name, path)
    if "/" not in name and name not in ("kubernetes", "orphan", "foregroundDeletion"):
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        yield make_invalid_error(path, name, detail)


class NodeStrategy(BuiltinStrategy):
    """Nodes: the creator may set the status on creation, as kubelets do."""

    has_status = True

    def default(self, doc: Document) -> Document:
        status = doc.setdefault("status", {})
        if status.get("capacity") and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])
        return doc

    def prepare_create(self, doc: Document) -> Document:
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_node(doc))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        causes = list(_check_node(new))
        before, after = old.get("spec") or {}, new.get("spec") or {}
        if any(before.get(field) and before[field] != after.get(field) for field in ("podCIDR", "podCIDRs")):
            detail = 'node updates may not change podCIDR except from "" to valid'
            causes.append(make_forbidden_error("spec.podCIDRs", detail))
        if before.get("providerID") and before["providerID"] != after.get("providerID"):
            detail = 'node updates may not change providerID except from "" to valid'
            causes.append(make_forbidden_error("spec.providerID", detail))
        return causes

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        return list(_check_node(new))


def _check_node(node: Doc) -> Causes:
    # Same path as in apiserver, although the taints are in the spec.
    yield from _check_taints((node.get("spec") or {}).get("taints") or (), "metadata.taints")
    for field in ("capacity", "allocatable"):
        for resource, amount in ((node.get("status") or {}).get(field) or {}).items():
            yield from check_quantity_not_negative(amount, f"status.{field}.{resource}")


def _check_taints(taints: Any, path: str) -> Causes:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here, key, effect = f"{path}[{index}]", taint.get("key") or "", taint.get("effect") or ""
        yield from check_qualified_name(key, f"{here}.key")
        wrong = is_valid_label_value(taint.get("value") or "")
        if wrong:
            yield make_invalid_error(f"{here}.value", taint.get("value"), ";".join(wrong))
        yield from check_one_of(effect, f"{here}.effect", ("NoSchedule", "PreferNoSchedule", "NoExecute"))
        if (key, effect) in seen:
            parts = (("Key", key), ("Value", taint.get("value") or ""), ("Effect", effect))
            value = ", ".join(f"{name}:{quote_text(text)}" for name, text in parts)
            rule = "taints must be unique by key and effect pair"
            message = f"Duplicate value: core.Taint{{{value}, TimeAdded:<nil>}}: {rule}"
            yield Cause(reason="FieldValueDuplicate", message=message, field=here)
        seen.add((key, effect))


class ConfigMapStrategy(BuiltinStrategy):
    """ConfigMaps: strings and binary data under keys; the data cannot change if `immutable` is true."""

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_config_map(doc))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        return [*_check_frozen(new, old, ("data", "binaryData")), *_check_config_map(new)]


def _check_config_map(doc: Doc) -> Causes:
    data, binary = doc.get("data") or {}, doc.get("binaryData") or {}
    size = 0
    for key, value in data.items():
        yield from check_config_key(key, f"data[{key}]")
        if key in binary:
            yield make_invalid_error(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += len(value.encode())
    for key, value in binary.items():
        yield from check_config_key(key, f"binaryData[{key}]")
        size += _compute_decoded_size(value or "")
    if size > _MAX_DATA:
        yield make_too_long_error("", _MAX_DATA)


def _compute_decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")


def _check_frozen(new: Doc, old: Doc, fields: tuple[str, ...]) -> Causes:
    if not old.get("immutable"):
        return
    detail = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield make_forbidden_error("immutable", detail)
    for field in fields:
        if not is_same(new.get(field), old.get(field)):
            yield make_forbidden_error(field, detail)


class SecretStrategy(BuiltinStrategy):
    """Secrets: like ConfigMaps, with a type that requires some keys."""

    def default(self, doc: Document) -> Document:
        if doc.get("stringData"):
            texts = {
                key: base64.b64encode(value.encode()).decode() for key, value in doc["stringData"].items()
            }
            doc["data"] = {**(doc.get("data") or {}), **texts}
        # stringData is write-only and never stored.
        doc.pop("stringData", None)
        if not doc.get("type"):
            doc["type"] = "Opaque"
        return doc

    def prepare_update(self, new: Document, old: Document) -> Document:
        if not new.get("type"):
            keep(new, old, "type")
        return new

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_secret(doc))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        causes = []
        if new.get("type") != old.get("type"):
            causes.append(make_invalid_error("type", new.get("type"), "field is immutable"))
        return [*causes, *_check_frozen(new, old, ("data",)), *_check_secret(new)]


def _check_secret(doc: Doc) -> Causes:
    data = doc.get("data") or {}
    for key in data:
        yield from check_config_key(key, f"data[{key}]")
    if sum(_compute_decoded_size(value or "") for value in data.values()) > _MAX_DATA:
        yield make_too_long_error("data", _MAX_DATA)
    match doc.get("type"):
        case "kubernetes.io/service-account-token":
            annotations = (doc.get("metadata") or {}).get("annotations") or {}
            if not annotations.get("kubernetes.io/service-account.name"):
                yield make_required_error("metadata.annotations[kubernetes.io/service-account.name]")
        case "kubernetes.io/dockercfg":
            yield from _check_json_key(data, ".dockercfg")
        case "kubernetes.io/dockerconfigjson":
            yield from _check_json_key(data, ".dockerconfigjson")
        case "kubernetes.io/basic-auth":
            if "username" not in data and "password" not in data:
                yield make_required_error("data[username]")
                yield make_required_error("data[password]")
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                yield make_required_error("data[ssh-privatekey]")
        case "kubernetes.io/tls":
            for key in ("tls.crt", "tls.key"):
                if key not in data:
                    yield make_required_error(f"data[{key}]")


def _check_json_key(data: Doc, key: str) -> Causes:
    if key not in data:
        yield make_required_error(f"data[{key}]")
        return
    try:
        parsed = json.loads(base64.b64decode(data[key]))
        problem = "" if isinstance(parsed, dict) else "json: cannot unmarshal into a map"
    except json.JSONDecodeError as error:
        here = error.doc[error.pos : error.pos + 1]
        problem = (
            f"invalid character '{here}' looking for beginning of value"
            if here
            else "unexpected end of JSON input"
        )
    except ValueError as error:
        problem = str(error)
    if problem:
        yield make_invalid_error(f"data[{key}]", "<secret contents redacted>", problem)


class ServiceAccountStrategy(BuiltinStrategy):
    """ServiceAccounts: only the metadata is checked."""


class EventStrategy(BuiltinStrategy):
    """Events of both groups: they are about an object in the event's own namespace."""

    def __init__(self, decoder: Decoder | None = None, *, subject: str = "involvedObject") -> None:
        super().__init__(decoder)
        self._subject = subject

    def validate_create(self, doc: Document) -> list[Cause]:
        causes = self._check(doc)
        if self._subject == "regarding":
            if not doc.get("eventTime"):
                causes.append(make_required_error("eventTime"))
            if doc.get("type") not in ("Normal", "Warning"):
                causes.append(make_invalid_error("type", "", f"has invalid value: {doc.get('type') or ''}"))
        return causes

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        return self._check(new)

    def _check(self, doc: Document) -> list[Cause]:
        about = (doc.get(self._subject) or {}).get("namespace") or ""
        namespace = (doc.get("metadata") or {}).get("namespace") or ""
        causes: list[Cause] = []
        # Events about a cluster-scoped object are in the namespace "default" or "kube-system".
        expected = ("", "default", "kube-system") if not about else (about,)
        if namespace not in expected:
            causes.append(
                make_invalid_error("involvedObject.namespace", about, "does not match event.namespace")
            )
        if doc.get("eventTime"):
            controller = "reportingComponent" if self._subject == "involvedObject" else "reportingController"
            for field in (controller, "reportingInstance", "action", "reason"):
                if not doc.get(field):
                    causes.append(make_required_error(field))
        return causes


class EndpointsStrategy(BuiltinStrategy):
    """Endpoints."""

    def default(self, doc: Document) -> Document:
        for subset in doc.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        causes: list[Cause] = []
        for index, subset in enumerate(doc.get("subsets") or ()):
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                detail = "must specify `addresses` or `notReadyAddresses`"
                causes.append(make_required_error(f"subsets[{index}]", detail))
        return causes
