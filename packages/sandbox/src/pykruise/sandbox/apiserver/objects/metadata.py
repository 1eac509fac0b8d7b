"""Rules for an object's metadata: the fields that the server sets, keeps and rejects.

writes.py ──▶ wipe(), stamp_new() / copy_immutable_fields() ──▶ validate_new() / validate_changed() ──▶ causes

Pure; time, ids and the random source are passed in. Same rules as apimachinery's `api/validation` for object metadata
and apiserver's `registry/rest` for creation and update.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.kube.pod_rules.names import (
    is_dns1035_label,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_qualified_name,
    is_valid_label_value,
)
from pykruise.kube.resources import Resource
from pykruise.kube.values.go_text import quote_text
from pykruise.kube.values.hashing import draw_suffix

Metadata = dict[str, Any]

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"

_VERSION_4: Final = 0x4000_8000_0000_0000_0000
"""Bits that mark a UUID as random: version 4, variant of RFC 4122."""
_NOT_OF_THE_VERSION: Final = ~0xF000_C000_0000_0000_0000
_SUFFIX_LENGTH: Final = 5
_LONGEST_BASE: Final = 63 - _SUFFIX_LENGTH
_ANNOTATIONS_LIMIT: Final = 256 * 1024
_SET_BY_SERVER: Final = (
    "creationTimestamp",
    "uid",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)


def wipe(metadata: Metadata) -> None:
    """Remove the fields of a new object that only the server may set."""
    for member in _SET_BY_SERVER:
        metadata.pop(member, None)


def generate_name(base: str, rng: random.Random) -> str:
    """Cut `base` to 58 characters and append five random characters that form no words."""
    return base[:_LONGEST_BASE] + draw_suffix(rng, _SUFFIX_LENGTH)


def make_uid(rng: random.Random) -> str:
    """Generate a random (version 4) UUID from this source."""
    # Same bits as uuid.UUID(int=..., version=4), in a fifth of the time.
    bits = rng.getrandbits(128) & _NOT_OF_THE_VERSION | _VERSION_4
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def stamp_new(metadata: Metadata, *, uid: str, now: Instant) -> None:
    """Give a new object its identity."""
    metadata["uid"] = uid
    metadata["creationTimestamp"] = format_time(now)


def copy_immutable_fields(new: Metadata, old: Mapping[str, Any]) -> None:
    """Copy into an update the fields that the update cannot change and may omit."""
    new.pop("selfLink", None)
    _keep_member(new, old, "generation")
    _keep_member(new, old, "creationTimestamp")
    if not new.get("uid"):
        _keep_member(new, old, "uid")
    if not new.get("namespace"):
        _keep_member(new, old, "namespace")
    if old.get("deletionTimestamp"):
        new["deletionTimestamp"] = old["deletionTimestamp"]
    if new.get("deletionGracePeriodSeconds") is None:
        _keep_member(new, old, "deletionGracePeriodSeconds")


def _keep_member(new: Metadata, old: Mapping[str, Any], member: str) -> None:
    if member in old:
        new[member] = old[member]
    else:
        new.pop(member, None)


# --- validation ----------------------------------------


def validate_new(resource: Resource, metadata: Mapping[str, Any], *, custom: bool) -> list[Cause]:
    """All errors in the metadata of a new object, after its name has been generated.

    `custom`: whether it is a custom resource, whose finalizers may have any name.
    """
    result: list[Cause] = []
    rule = _NAME_RULES.get((resource.group, resource.plural), is_dns1123_subdomain)
    base = metadata.get("generateName")
    if base:
        result += [
            causes.make_invalid_error("metadata.generateName", base, text)
            for text in rule(_without_dash(base))
        ]
    name = metadata.get("name")
    if name:
        if wrong := rule(name):
            result += [causes.make_invalid_error("metadata.name", name, text) for text in wrong]
    else:
        result.append(causes.make_required_error("metadata.name", "name or generateName is required"))
    if resource.namespaced:
        namespace = metadata.get("namespace") or ""
        if wrong := is_dns1123_label(namespace):
            result += [causes.make_invalid_error("metadata.namespace", namespace, text) for text in wrong]
    generation = metadata.get("generation") or 0
    if generation < 0:
        result.append(
            causes.make_invalid_error("metadata.generation", generation, "must be greater than or equal to 0")
        )
    for member, check in _CHECKED:
        if value := metadata.get(member):
            result += check(value)
    if finalizers := metadata.get("finalizers"):
        result += _check_finalizers(finalizers)
        if not custom and resource.group not in _LENIENT_GROUPS:
            result += _check_finalizer_domains(finalizers)
    return result


def validate_changed(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    """All errors in a change of metadata. Unchanged parts are not checked again."""
    result: list[Cause] = []
    if old.get("deletionTimestamp"):
        result += _check_no_new_finalizers(new.get("finalizers") or (), old.get("finalizers") or ())
    for member in _IMMUTABLE:
        before, after = old.get(member), new.get(member)
        if (before or None) != (after or None):
            result.append(_make_immutable_error(member, after))
    for member, check in _CHECKED:
        value = new.get(member)
        if value and value != old.get(member):
            result += check(value)
    return result


def _check_labels(labels: Mapping[str, str] | None) -> list[Cause]:
    result: list[Cause] = []
    for key, value in (labels or {}).items():
        if wrong := is_qualified_name(key):
            result += [causes.make_invalid_error("metadata.labels", key, text) for text in wrong]
        if wrong := is_valid_label_value(value):
            result += [causes.make_invalid_error("metadata.labels", value, text) for text in wrong]
    return result


def _check_annotations(annotations: Mapping[str, str] | None) -> list[Cause]:
    result: list[Cause] = []
    size = 0
    for key, value in (annotations or {}).items():
        size += len(key.encode()) + len(value.encode())
        # Checked like a qualified name, but upper case is allowed.
        if wrong := is_qualified_name(key.lower()):
            result += [causes.make_invalid_error("metadata.annotations", key, text) for text in wrong]
    if size > _ANNOTATIONS_LIMIT:
        result.append(causes.make_too_long_error("metadata.annotations", _ANNOTATIONS_LIMIT))
    return result


def _check_owners(owners: Sequence[Mapping[str, Any]] | None) -> list[Cause]:
    result: list[Cause] = []
    controller = ""
    field = "metadata.ownerReferences"
    for owner in owners or ():
        version = str(owner.get("apiVersion") or "")
        if not version.rpartition("/")[2]:
            result.append(
                causes.make_invalid_error(f"{field}.apiVersion", version, "version must not be empty")
            )
        for member in ("kind", "name", "uid"):
            if not owner.get(member):
                result.append(
                    causes.make_invalid_error(f"{field}.{member}", "", f"{member} must not be empty")
                )
        if version == "v1" and owner.get("kind") == "Event":
            result.append(
                causes.make_invalid_error(field, owner, "/v1, Kind=Event is disallowed from being an owner")
            )
        if owner.get("controller") is True:
            this = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                text = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {this}"
                )
                result.append(causes.make_invalid_error(field, list(owners or ()), text))
            controller = controller or this
    return result


def _check_finalizers(finalizers: Sequence[str] | None) -> list[Cause]:
    listed = finalizers or ()
    field = "metadata.finalizers"
    result = [
        causes.make_invalid_error(field, name, text) for name in listed for text in is_qualified_name(name)
    ]
    if ORPHAN in listed and FOREGROUND in listed:
        text = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        result.append(causes.make_invalid_error(field, list(listed), text))
    return result


def _check_finalizer_domains(finalizers: Sequence[str]) -> list[Cause]:
    """Return an error for each finalizer that has no domain and is not a finalizer of Kubernetes; most built-in
    kinds check this.
    """
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        causes.make_invalid_error(f"metadata.finalizers[{index}]", name, text)
        for index, name in enumerate(finalizers)
        if "/" not in name and name not in ("kubernetes", ORPHAN, FOREGROUND)
    ]


def list_finalizer_advice(new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[str]:
    """Warnings for new finalizers of a custom resource that have no domain."""
    before = (old or {}).get("finalizers") or ()
    return [
        f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name to avoid accidental '
        "conflicts with other finalizer writers"
        for name in new.get("finalizers") or ()
        if "/" not in name and name not in (ORPHAN, FOREGROUND) and name not in before
    ]


def _make_immutable_error(member: str, value: Any) -> Cause:
    shown = causes.format_shown(value)
    if member.endswith("Timestamp") and isinstance(value, str):
        # A time is printed in Go's format.
        shown = value.replace("T", " ").replace("Z", " +0000 UTC")
    return Cause(
        reason="FieldValueInvalid",
        message=f"Invalid value: {shown}: field is immutable",
        field=f"metadata.{member}",
    )


def _check_no_new_finalizers(new: Iterable[str], old: Iterable[str]) -> list[Cause]:
    extra = sorted(set(new) - set(old))
    if not extra:
        return []
    listed = ", ".join(quote_text(name) for name in extra)
    text = (
        "no new finalizers can be added if the object is being deleted, found new finalizers "
        f"[]string{{{listed}}}"
    )
    return [causes.make_forbidden_error("metadata.finalizers", text)]


_LENIENT_GROUPS: Final = ("admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io")
_IMMUTABLE: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_CHECKED: Final[tuple[tuple[str, Callable[[Any], list[Cause]]], ...]] = (
    ("labels", _check_labels),
    ("annotations", _check_annotations),
    ("ownerReferences", _check_owners),
)


def _without_dash(base: str) -> str:
    """Replace the end of a base name that ends in a dash, because a suffix follows it. This is the rule of
    apimachinery.
    """
    return f"{base[:-2]}a" if len(base) > 1 and base.endswith("-") else base


def _check_path_segment(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in name]


_RBAC: Final = "rbac.authorization.k8s.io"
_NAME_RULES: Final[Mapping[tuple[str, str], Callable[[str], list[str]]]] = {
    ("", "namespaces"): is_dns1123_label,
    ("", "services"): is_dns1035_label,
    ("apps", "statefulsets"): is_dns1123_label,
    (_RBAC, "roles"): _check_path_segment,
    (_RBAC, "rolebindings"): _check_path_segment,
    (_RBAC, "clusterroles"): _check_path_segment,
    (_RBAC, "clusterrolebindings"): _check_path_segment,
}
