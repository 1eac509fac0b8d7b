"""Validation of a CustomResourceDefinition: its names, versions, schemas and conversion.

a CRD                            ──▶ find_crd_errors()       ──▶ causes
a CRD, the CRD before the update ──▶ find_immutable_errors() ──▶ causes

Pure. Same rules as Kubernetes' validation of CustomResourceDefinitions.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.kube.pod_rules.names import is_dns1035_label, is_dns1123_subdomain
from pykruise.sandbox.apiserver.custom.schema import NotStructuralError, StructuralSchema

_APPROVED: Final = "api-approved.kubernetes.io"
_APPROVAL_RULES: Final = "https://github.com/kubernetes/enhancements/pull/1111"
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")


def versions_of(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The CRD's versions, without entries that are not JSON objects."""
    versions = spec.get("versions")
    return [each for each in versions if isinstance(each, dict)] if isinstance(versions, list) else []


def is_true(status: Mapping[str, Any], kind: str) -> bool:
    """Whether the condition of that type is true."""
    return any(
        condition.get("type") == kind and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def name_of_crd_errors(doc: Document) -> Iterator[Cause]:
    """Check that the object's name consists of the kind's plural and its group."""
    spec = doc.get("spec") or {}
    expected = f"{(spec.get('names') or {}).get('plural') or ''}.{spec.get('group') or ''}"
    name = doc["metadata"].get("name") or ""
    if name and name != expected:
        yield causes.make_invalid_error("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def find_approval_errors(doc: Document, old: Document | None = None) -> Iterator[Cause]:
    """Check the approval that a CRD in a group of Kubernetes itself needs. An update may keep a missing approval."""
    group = (doc.get("spec") or {}).get("group") or ""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    state = _read_approval(doc)
    if old is not None and _read_approval(old) == state:
        return
    path = f"metadata.annotations[{_APPROVED}]"
    detail = f'protected groups must have approval annotation "{_APPROVED}"'
    if state == "missing":
        yield causes.make_required_error(path, f"{detail}, see {_APPROVAL_RULES}")
    elif state == "invalid":
        detail = f'{detail} with either a URL or a reason starting with "unapproved", see {_APPROVAL_RULES}'
        yield causes.make_invalid_error(path, doc["metadata"]["annotations"][_APPROVED], detail)


def _read_approval(doc: Document) -> str:
    text = ((doc.get("metadata") or {}).get("annotations") or {}).get(_APPROVED) or ""
    if not text:
        return "missing"
    if text.startswith("unapproved"):
        return "bypassed"
    try:
        url = urlsplit(text)
    except ValueError:
        return "invalid"
    return "approved" if url.scheme and url.netloc else "invalid"


def find_crd_errors(doc: Document) -> Iterator[Cause]:
    """All errors of a CRD's spec."""
    spec = doc.get("spec")
    if not isinstance(spec, dict):
        yield causes.make_required_error("spec")
        return
    names = spec.get("names") if isinstance(spec.get("names"), dict) else {}
    group = spec.get("group") or ""
    if not group:
        yield causes.make_required_error("spec.group")
    else:
        for text in is_dns1123_subdomain(group):
            yield causes.make_invalid_error("spec.group", group, text)
        if group and "." not in group:
            yield causes.make_invalid_error("spec.group", group, "should be a domain with at least one dot")
    scope = spec.get("scope") or ""
    if not scope:
        yield causes.make_required_error("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield causes.make_not_supported_error("spec.scope", scope, ["Cluster", "Namespaced"])
    yield from _check_versions(spec)
    yield from _check_names(names or {}, "spec.names")
    yield from _check_conversion(spec)
    if spec.get("preserveUnknownFields"):
        text = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true "
            "in spec.versions[*].schema instead"
        )
        yield causes.make_invalid_error("spec.preserveUnknownFields", True, text)
    yield from find_stored_version_errors(doc)


def _check_versions(spec: Mapping[str, Any]) -> Iterator[Cause]:
    versions = versions_of(spec)
    if not versions:
        yield causes.make_invalid_error(
            "spec.versions",
            spec.get("versions") or [],
            "must have exactly one version marked as storage version",
        )
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = version.get("name") or ""
        for text in is_dns1035_label(name):
            yield causes.make_invalid_error(f"{path}.name", name, text)
            if index == 0:  # as in apiserver, the name of the first version is also `spec.version`
                yield causes.make_invalid_error("spec.version", name, text)
        if name in seen:
            yield causes.make_invalid_error(
                "spec.versions", [each.get("name") for each in versions], "must contain unique version names"
            )
        seen.add(name)
        # If there is one version, apiserver reports errors in these fields as if the fields were in the CRD's spec.
        alone = len(versions) == 1
        own = f"{path}.schema"
        yield from _check_schema(version, "spec.validation" if alone else own, missing=own)
        place = "spec" if alone else path
        yield from _check_subresources(version, place)
        for position, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from _check_column(column, f"{place}.additionalPrinterColumns[{position}]")
        if version.get("deprecationWarning") is not None and not version.get("deprecated"):
            text = "can only be set for deprecated versions"
            yield causes.make_invalid_error(f"{path}.deprecationWarning", version["deprecationWarning"], text)
    if sum(bool(version.get("storage")) for version in versions) != 1:
        listed = [version.get("name") for version in versions]
        yield causes.make_invalid_error(
            "spec.versions", listed, "must have exactly one version marked as storage version"
        )


def _check_schema(version: Mapping[str, Any], path: str, *, missing: str) -> Iterator[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield causes.make_required_error(f"{missing}.openAPIV3Schema", "schemas are required")
        return
    try:
        StructuralSchema.from_crd_schema(schema, path=f"{path}.openAPIV3Schema")
    except NotStructuralError as err:
        yield from err.causes
    except RecursionError:
        yield causes.make_invalid_error(f"{path}.openAPIV3Schema", "", "is nested too deeply")


def _check_subresources(version: Mapping[str, Any], path: str) -> Iterator[Cause]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return
    for member, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = scale.get(member) or ""
        field = f"{path}.subresources.scale.{member}"
        if not value:
            yield causes.make_required_error(field)
        elif not value.startswith("."):
            yield causes.make_invalid_error(field, value, "must be a simple json path starting with .")
        elif not value.startswith(root) or "[" in value:
            yield causes.make_invalid_error(field, value, f"should be a json path under {root.rstrip('.')}")
    selector = scale.get("labelSelectorPath")
    if selector and not selector.startswith((".spec.", ".status.")):
        field = f"{path}.subresources.scale.labelSelectorPath"
        yield causes.make_invalid_error(
            field, selector, "should be a json path under either .status or .spec"
        )


def _check_column(column: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield causes.make_required_error(f"{path}.name")
    kind = column.get("type") or ""
    if not kind:
        text = f"must be one of {','.join(_COLUMN_TYPES)}"
        yield causes.make_required_error(f"{path}.type", text)
    elif kind not in _COLUMN_TYPES:
        yield causes.make_invalid_error(f"{path}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
    if not column.get("jsonPath"):
        yield causes.make_required_error(f"{path}.JSONPath")
    elif not column["jsonPath"].startswith("."):
        text = "must be a simple json path starting with ."
        yield causes.make_invalid_error(f"{path}.JSONPath", column["jsonPath"], text)


def _check_names(names: Mapping[str, Any], path: str) -> Iterator[Cause]:
    for member in ("plural", "singular", "kind", "listKind"):
        value = names.get(member) or ""
        if not value:
            yield causes.make_required_error(f"{path}.{member}")
            continue
        checked = value if member in ("plural", "singular") else value.lower()
        what = "a DNS-1035 label"
        for text in is_dns1035_label(checked):
            prefix = (
                ""
                if member in ("plural", "singular")
                else "may have mixed case, but should otherwise match: "
            )
            yield causes.make_invalid_error(f"{path}.{member}", value, f"{prefix}{text}" if what else text)
    for index, short in enumerate(names.get("shortNames") or ()):
        for text in is_dns1035_label(short):
            yield causes.make_invalid_error(f"{path}.shortNames[{index}]", short, text)
    for index, category in enumerate(names.get("categories") or ()):
        for text in is_dns1035_label(category):
            yield causes.make_invalid_error(f"{path}.categories[{index}]", category, text)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        text = "kind and listKind may not be the same"
        yield causes.make_invalid_error(f"{path}.listKind", names["listKind"], text)


def _check_conversion(spec: Mapping[str, Any]) -> Iterator[Cause]:
    conversion = spec.get("conversion")
    if not isinstance(conversion, dict):
        return
    strategy = conversion.get("strategy") or ""
    if strategy not in ("None", "Webhook"):
        yield causes.make_not_supported_error("spec.conversion.strategy", strategy, ["None", "Webhook"])
    if strategy == "Webhook" and not (conversion.get("webhook") or {}).get("clientConfig"):
        text = "required when strategy is set to Webhook"
        yield causes.make_required_error("spec.conversion.webhookClientConfig", text)
    if strategy == "Webhook" and not (conversion.get("webhook") or {}).get("conversionReviewVersions"):
        yield causes.make_required_error("spec.conversion.conversionReviewVersions")


def find_stored_version_errors(doc: Document) -> Iterator[Cause]:
    """Check that versions with stored objects are not removed."""
    stored: Sequence[str] = (doc.get("status") or {}).get("storedVersions") or ()
    versions = [version.get("name") for version in versions_of(doc.get("spec") or {})]
    if not stored:
        text = "Invalid value: []string(nil): must have at least one stored version"
        yield Cause(reason="FieldValueInvalid", message=text, field="status.storedVersions")
    for index, version in enumerate(stored):
        if version not in versions:
            yield causes.make_invalid_error(
                f"status.storedVersions[{index}]", version, "must appear in spec.versions"
            )


def find_immutable_errors(new: Document, old: Document) -> Iterator[Cause]:
    """Check that an established CRD keeps the fields that identify its stored objects."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    pairs = [("spec.group", spec.get("group"), before.get("group"))]
    names, old_names = spec.get("names") or {}, before.get("names") or {}
    pairs.append(("spec.names.plural", names.get("plural"), old_names.get("plural")))
    if is_true(old.get("status") or {}, "Established"):
        pairs.append(("spec.scope", spec.get("scope"), before.get("scope")))
        pairs.append(("spec.names.kind", names.get("kind"), old_names.get("kind")))
    for field, after, was in pairs:
        if after != was:
            yield causes.make_invalid_error(field, after, "field is immutable")
