"""Rules of storage: claims, volumes and storage classes.

    an object as sent ──▶ …Strategy ──▶ the object as stored, or Causes

Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import Document, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_forbidden_error,
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import (
    Causes,
    check_immutable,
    check_one_of,
    check_qualified_name,
    check_selector,
    check_subdomain,
)
from pykruise.kube.values.quantities import parse_quantity
from pykruise.sandbox.apiserver.builtin.pod_spec import fill_claim_spec
from pykruise.sandbox.apiserver.builtin.strategy import BuiltinStrategy

Doc = Mapping[str, Any]
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES: Final = ("Block", "Filesystem")


class PersistentVolumeClaimStrategy(BuiltinStrategy):
    """PersistentVolumeClaims: only a few fields of the spec can change, such as the size of a bound claim."""

    has_status = True

    def default(self, doc: Document) -> Document:
        fill_claim_spec(doc.setdefault("spec", {}))
        doc.setdefault("status", {}).setdefault("phase", "Pending")
        return doc

    def prepare_create(self, doc: Document) -> Document:
        doc["status"] = {"phase": "Pending"}
        _protect(doc, "kubernetes.io/pvc-protection")
        _pair_data_sources(doc["spec"])
        return doc

    def prepare_update(self, new: Document, old: Document) -> Document:
        super().prepare_update(new, old)
        _pair_data_sources(new["spec"])
        return new

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_claim(doc.get("spec") or {}, "spec"))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        return [*self.validate_create(new), *_check_claim_changes(new, old)]

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        causes = []
        for resource, amount in ((new.get("status") or {}).get("capacity") or {}).items():
            if parse_quantity(amount) < 0:
                path = f"status.capacity[{resource}]"
                causes.append(
                    make_invalid_error(path, int(parse_quantity(amount)), "must be a valid resource quantity")
                )
        return causes


def _protect(doc: Document, finalizer: str) -> None:
    """Add a finalizer that a controller removes when nothing uses the object. This is the rule of
    StorageObjectInUseProtection.
    """
    metadata = doc.setdefault("metadata", {})
    known = metadata.get("finalizers") or []
    if finalizer not in known:
        metadata["finalizers"] = [*known, finalizer]


def _pair_data_sources(spec: Document) -> None:
    """Give `dataSource` and `dataSourceRef` the same value."""
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and new is None:
        spec["dataSourceRef"] = dict(old)
    elif new is not None and old is None and not new.get("namespace"):
        spec["dataSource"] = dict(new)


def _check_claim(spec: Doc, path: str) -> Causes:
    modes = spec.get("accessModes") or ()
    if not modes:
        yield make_required_error(f"{path}.accessModes", "at least 1 access mode is required")
    yield from check_selector(spec.get("selector"), f"{path}.selector")
    yield from _check_access_modes(modes, f"{path}.accessModes")
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    place = f"{path}.resources[storage]"
    if size is None:
        yield make_required_error(place)
    elif parse_quantity(size) <= 0:
        yield make_invalid_error(place, size, "must be greater than zero")
    elif parse_quantity(size).denominator != 1:
        yield make_invalid_error(place, size, "must be an integer")
    if spec.get("storageClassName"):
        yield from check_subdomain(spec["storageClassName"], f"{path}.storageClassName")
    if spec.get("volumeMode") is not None:
        yield from check_one_of(spec["volumeMode"], f"{path}.volumeMode", _VOLUME_MODES)


def _check_access_modes(modes: Any, path: str) -> Causes:
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield make_not_supported_error(path, mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode != "ReadWriteOncePod" for mode in modes):
        yield make_forbidden_error(path, "may not use ReadWriteOncePod with other access modes")


def _check_claim_changes(new: Document, old: Document) -> Causes:
    after, before = dict(new["spec"]), dict(old["spec"])
    bound = (new.get("status") or {}).get("phase") == "Bound"
    if not before.get("volumeName"):
        after.pop("volumeName", None)
        before.pop("volumeName", None)
    if before.get("storageClassName") is None:
        # A default class may be set later.
        after.pop("storageClassName", None)
    if bound:
        after["resources"] = _without_storage(after.get("resources"))
        before["resources"] = _without_storage(before.get("resources"))
    if not is_same(after, before):
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
            f"bound claims\n{_format_changed_fields(after, before)}"
        )
        yield make_forbidden_error("spec", detail)
    if _read_storage_request(new["spec"]) < _read_storage_request(old["spec"]):
        granted = ((new.get("status") or {}).get("capacity") or {}).get("storage", "0")
        if _read_storage_request(new["spec"]) <= parse_quantity(granted):
            yield make_forbidden_error(
                "spec.resources.requests.storage", "field can not be less than status.capacity"
            )
    yield from check_immutable(after.get("volumeMode"), before.get("volumeMode"), "volumeMode")


def _read_storage_request(spec: Doc) -> Any:
    return parse_quantity(((spec.get("resources") or {}).get("requests") or {}).get("storage", "0"))


def _without_storage(resources: Doc | None) -> Document:
    requests = {
        name: amount
        for name, amount in ((resources or {}).get("requests") or {}).items()
        if name != "storage"
    }
    return {**(resources or {}), "requests": requests}


def _format_changed_fields(new: Doc, old: Doc) -> str:
    changed = [
        field for field in sorted(new.keys() | old.keys()) if not is_same(new.get(field), old.get(field))
    ]
    return "\n".join(f"{field}: {old.get(field)!r} -> {new.get(field)!r}" for field in changed)


_NOT_A_SOURCE: Final = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


class PersistentVolumeStrategy(BuiltinStrategy):
    """PersistentVolumes: the volume source never changes."""

    has_status = True

    def default(self, doc: Document) -> Document:
        spec = doc.setdefault("spec", {})
        if not spec.get("persistentVolumeReclaimPolicy"):
            spec["persistentVolumeReclaimPolicy"] = "Retain"
        spec.setdefault("volumeMode", "Filesystem")
        if spec.get("hostPath") is not None:
            spec["hostPath"].setdefault("type", "")
        doc.setdefault("status", {}).setdefault("phase", "Pending")
        return doc

    def prepare_create(self, doc: Document) -> Document:
        doc["status"] = {"phase": "Pending"}
        _protect(doc, "kubernetes.io/pv-protection")
        created = (doc.get("metadata") or {}).get("creationTimestamp")
        if created:
            doc["status"]["lastPhaseTransitionTime"] = created
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_volume(doc.get("spec") or {}))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        causes = list(_check_volume(new["spec"]))
        after, before = _read_volume_source(new["spec"]), _read_volume_source(old["spec"])
        if not is_same(after, before):
            detail = f"spec.persistentvolumesource is immutable after creation\n{_format_changed_fields(after, before)}"
            causes.append(make_forbidden_error("spec.persistentvolumesource", detail))
        mode = new["spec"].get("volumeMode"), old["spec"].get("volumeMode")
        return [*causes, *check_immutable(*mode, "volumeMode")]


def _read_volume_source(spec: Doc) -> Document:
    return {field: value for field, value in spec.items() if field not in _NOT_A_SOURCE}


def _check_volume(spec: Doc) -> Causes:
    modes = spec.get("accessModes") or ()
    if not modes:
        yield make_required_error("spec.accessModes")
    yield from _check_access_modes(modes, "spec.accessModes")
    capacity = spec.get("capacity") or {}
    if not capacity:
        yield make_required_error("spec.capacity")
    if "storage" not in capacity or len(capacity) > 1:
        text = "" if capacity else "core.ResourceList(nil)"
        yield make_not_supported_error("spec.capacity", dict(capacity), ("storage",), text=text)
    for resource, amount in capacity.items():
        if parse_quantity(amount) <= 0:
            yield make_invalid_error(f"spec.capacity[{resource}]", amount, "must be greater than zero")
    if spec.get("persistentVolumeReclaimPolicy"):
        policy = spec["persistentVolumeReclaimPolicy"]
        place = "spec.persistentVolumeReclaimPolicy"
        yield from check_one_of(policy, place, ("Delete", "Recycle", "Retain"))
    sources = [field for field, value in _read_volume_source(spec).items() if value is not None]
    if not sources:
        yield make_required_error("spec", "must specify a volume type")
    for source in sources[1:]:
        yield make_forbidden_error(f"spec.{source}", "may not specify more than 1 volume type")
    if spec.get("hostPath") is not None and not spec["hostPath"].get("path"):
        yield make_required_error("spec.hostPath.path")
    if spec.get("storageClassName"):
        yield from check_subdomain(spec["storageClassName"], "spec.storageClassName")
    yield from check_one_of(spec.get("volumeMode"), "spec.volumeMode", _VOLUME_MODES)


class StorageClassStrategy(BuiltinStrategy):
    """StorageClasses: parameters, provisioner and policies cannot change."""

    def default(self, doc: Document) -> Document:
        doc.setdefault("reclaimPolicy", "Delete")
        doc.setdefault("volumeBindingMode", "Immediate")
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_storage_class(doc))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        causes = [
            make_forbidden_error(field, f"updates to {field} are forbidden.")
            for field in ("parameters", "provisioner", "reclaimPolicy")
            if not is_same(new.get(field), old.get(field))
        ]
        modes = new.get("volumeBindingMode"), old.get("volumeBindingMode")
        return [*causes, *check_immutable(*modes, "volumeBindingMode")]


def _check_storage_class(doc: Doc) -> Causes:
    provisioner = doc.get("provisioner") or ""
    if not provisioner:
        yield make_required_error("provisioner")
    else:
        yield from check_qualified_name(provisioner.lower(), "provisioner")
    yield from check_one_of(doc.get("reclaimPolicy"), "reclaimPolicy", ("Delete", "Retain"), needed=False)
    yield from check_one_of(
        doc.get("volumeBindingMode"), "volumeBindingMode", ("Immediate", "WaitForFirstConsumer")
    )


class CSIDriverStrategy(BuiltinStrategy):
    """CSIDrivers."""

    def default(self, doc: Document) -> Document:
        spec = doc.setdefault("spec", {})
        for field, value in _CSI_DRIVER_DEFAULTS.items():
            spec.setdefault(field, value)
        spec.setdefault("volumeLifecycleModes", ["Persistent"])
        return doc


_CSI_DRIVER_DEFAULTS: Final = {
    "attachRequired": True,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "podInfoOnMount": False,
    "requiresRepublish": False,
    "seLinuxMount": False,
    "storageCapacity": False,
}
