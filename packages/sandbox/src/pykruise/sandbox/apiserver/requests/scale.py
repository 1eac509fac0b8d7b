"""The scale subresource: the replicas of any workload as one small object, `autoscaling/v1 Scale`.

GET ──▶ scale_of(object) ;  PUT, PATCH ──▶ the object with new replicas, updated as through its main endpoint

Same rules as the scale endpoints of apps workloads and of custom resources.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pykruise.kube.documents import Document, encode_canonical
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.kube.values.selectors import Selector, SelectorError, parse_label_selector, parse_selector
from pykruise.sandbox.apiserver.catalog import CatalogEntry, ServedScalePaths
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.objects.storage import Stored
from pykruise.sandbox.apiserver.requests.call import Call, CallAnswer, check_write_options
from pykruise.sandbox.apiserver.requests.negotiation import read_body
from pykruise.sandbox.apiserver.requests.patching import read_patch
from pykruise.sandbox.apiserver.requests.statuses import (
    MODIFIED_MEANWHILE,
    make_bad_request,
    make_conflict,
    make_internal_error,
    make_invalid,
    make_not_found,
)
from pykruise.sandbox.apiserver.requests.writes import modify

_DEFINITION: Final = "io.k8s.api.autoscaling.v1.Scale"


async def get_scale(core: Core, call: Call) -> CallAnswer:
    """Respond with the Scale of the object. Raises Refusal."""
    stored = core.get(call.entry, call.namespace, call.name)
    if stored is None:
        raise make_not_found(call.entry.resource, call.name)
    return CallAnswer(200, encode_canonical(scale_of(call.entry, await core.load(call.entry, stored))))


async def put_scale(core: Core, call: Call) -> CallAnswer:
    """Set the replicas to those of the Scale in the body. Raises Refusal."""
    check_write_options(call, "UpdateOptions")
    scale = read_body(call.headers, call.body, what="Scale")
    _check_type(scale)
    return await _set_replicas(core, call, lambda _: scale)


async def patch_scale(core: Core, call: Call) -> CallAnswer:
    """Patch the Scale. Raises Refusal."""
    # A built-in workload's Scale has a type and accepts strategic merges; a custom resource's Scale does not.
    wanted = read_patch(call, _DEFINITION if call.entry.definition else "")

    def patched(scale: Document) -> Document:
        scale = wanted.apply(scale)
        replicas = (scale.get("spec") or {}).get("replicas") or 0
        if type(replicas) is not int:
            result = "string" if isinstance(replicas, str) else "number"
            text = (
                f"json: cannot unmarshal {result} into Go struct field ScaleSpec.spec.replicas of type int32"
            )
            raise make_invalid(
                "", "", "", [causes.make_invalid_error("patch", encode_canonical(scale).decode(), text)]
            )
        return scale

    return await _set_replicas(core, call, patched)


async def _set_replicas(core: Core, call: Call, change: Callable[[Document], Document]) -> CallAnswer:
    entry = call.entry
    paths = entry.scale
    assert paths is not None
    if core.get(entry, call.namespace, call.name) is None:
        raise make_not_found(entry.resource, call.name)

    def with_replicas(doc: Document, stored: Stored) -> Document:
        scale = change(_build_scale(entry, doc))
        _check_scale(call, scale, doc)
        _put_value(doc, paths.spec_replicas, (scale.get("spec") or {}).get("replicas") or 0)
        return doc

    return await modify(core, call, with_replicas, show=lambda doc: scale_of(entry, doc))


def scale_of(entry: CatalogEntry, doc: Document) -> Document:
    """Return the Scale of an object. Raises Refusal (500) when a custom resource has no replicas field."""
    paths = entry.scale
    assert paths is not None
    if entry.is_custom and _get_value(doc, paths.spec_replicas) is None:
        raise make_internal_error(f'the spec replicas field "{paths.spec_replicas}" does not exist')
    return _build_scale(entry, doc)


def _build_scale(entry: CatalogEntry, doc: Document) -> Document:
    """Return the Scale of an object, which may have no replicas yet."""
    paths = entry.scale
    assert paths is not None
    meta = doc["metadata"]
    replicas = _get_value(doc, paths.spec_replicas)
    status: Document = {"replicas": _to_int(_get_value(doc, paths.status_replicas))}
    if selector := _format_selector(doc, paths):
        status["selector"] = selector
    members = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {member: meta[member] for member in members if member in meta},
        "spec": {"replicas": _to_int(replicas)} if _to_int(replicas) else {},
        "status": status,
    }


def _format_selector(doc: Document, paths: ServedScalePaths) -> str:
    if paths.selector:
        text = _get_value(doc, paths.selector)
        return text if isinstance(text, str) else ""
    selector = _get_value(doc, paths.selector_of) if paths.selector_of else None
    if not isinstance(selector, dict):
        return ""
    try:
        result: Selector = (
            parse_selector(selector)
            if "matchLabels" in selector or "matchExpressions" in selector
            else parse_label_selector(",".join(f"{key}={value}" for key, value in selector.items()))
        )
    except SelectorError:
        return ""
    return str(result)


def _check_type(scale: Document) -> None:
    version, kind = scale.get("apiVersion") or "autoscaling/v1", scale.get("kind") or "Scale"
    if version != "autoscaling/v1":
        raise make_bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            "(autoscaling/v1)"
        )
    if kind != "Scale":
        raise make_bad_request(f'{kind} in version "v1" cannot be handled as a Scale: it is of another kind')


def _check_scale(call: Call, scale: Document, doc: Document) -> None:
    """Check that name, namespace, uid and resourceVersion are those of the object, if the Scale sets them, and that the
    number of replicas is valid.
    """
    meta = scale.get("metadata")
    spec = scale.get("spec")
    if not isinstance(meta or {}, dict) or not isinstance(spec or {}, dict):
        raise make_bad_request("Scale cannot be read: metadata and spec must be objects")
    meta, replicas = meta or {}, (spec or {}).get("replicas") or 0
    if meta.get("name", call.name) != call.name:
        raise make_bad_request(
            f"the name of the object ({meta.get('name')}) does not match the name on the URL ({call.name})"
        )
    if meta.get("namespace", call.namespace) != call.namespace:
        raise make_bad_request(
            f"the namespace of the object ({meta.get('namespace')}) does not match the namespace "
            f"on the request ({call.namespace})"
        )
    own = doc["metadata"]
    if (uid := meta.get("uid")) and uid != own.get("uid"):
        text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {own.get('uid')}"
        raise make_conflict(call.entry.resource, call.name, text)
    if (version := meta.get("resourceVersion")) and version != own.get("resourceVersion"):
        raise make_conflict(call.entry.resource, call.name, MODIFIED_MEANWHILE)
    if type(replicas) is not int:
        raise make_bad_request(
            "Scale cannot be read: json: cannot unmarshal into Go struct field ScaleSpec.spec.replicas "
            "of type int32"
        )
    if replicas < 0 and not call.entry.is_custom:
        text = "must be greater than or equal to 0"
        raise make_invalid(
            "Scale", "autoscaling", call.name, [causes.make_invalid_error("spec.replicas", replicas, text)]
        )


def _split_path(path: str) -> list[str]:
    return [step for step in path.split(".") if step]


def _get_value(doc: Mapping[str, Any], path: str) -> Any:
    value: Any = doc
    for step in _split_path(path):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def _put_value(doc: Document, path: str, value: Any) -> None:
    *parents, last = _split_path(path)
    for step in parents:
        below = doc.get(step)
        doc = below if isinstance(below, dict) else doc.setdefault(step, {})
    doc[last] = value


def _to_int(value: Any) -> int:
    return value if type(value) is int else 0
