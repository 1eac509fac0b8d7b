"""Owners of fields in several versions of a kind: managers stay in the version in which they wrote."""

from typing import Any

from conformance.builders import crd
from conformance.dsl import (
    MERGE,
    Step,
    apply,
    based_on,
    case,
    create,
    define,
    get,
    owned,
    patch,
    pause,
    put,
)

_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.$ns.example.com"
_TEXT = {"type": "string"}
_PARTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "required": ["name"], "properties": {"name": _TEXT, "use": _TEXT}},
}


def _version(name: str, length: str) -> dict[str, Any]:
    """A version of the CRD in which the length has this field name."""
    spec = {
        "type": "object",
        "properties": {length: {"type": "integer"}, "color": _TEXT, "parts": _PARTS},
    }
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    return {
        "name": name,
        "served": True,
        "storage": name == "v1",
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }


def _conversion(path: str) -> dict[str, Any]:
    return {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": f"$hook/{path}", "caBundle": "$bundle"},
            "conversionReviewVersions": ["v1"],
        },
    }


def _defined() -> Step:
    """Define a CRD: v2 has `size` in place of `length` in v1, the stored version."""
    versions = [_version("v1", "length"), _version("v2", "size")]
    return define(crd(conversion=_conversion("convert"), versions=versions))


def _widget(version: str, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"$ns.example.com/{version}",
        "kind": "Widget",
        "metadata": {"name": "a", **({"labels": labels} if labels else {})},
        "spec": spec,
    }


def _v1(
    manager: str = "tester", *, force: bool = False, labels: dict[str, str] | None = None, **spec: Any
) -> Step:
    return apply("widgets@v1/a", _widget("v1", labels=labels, **spec), manager=manager, force=force)


def _v2(
    manager: str = "tester", *, force: bool = False, labels: dict[str, str] | None = None, **spec: Any
) -> Step:
    return apply("widgets@v2/a", _widget("v2", labels=labels, **spec), manager=manager, force=force)


_NEW_EVENT = "/apis/events.k8s.io/v1/namespaces/$ns/events/a"


def _event(*, labels: dict[str, str], message: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a", "namespace": "$ns", "labels": labels},
        "reportingComponent": "tester",
        "reportingInstance": "a",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "$ns"},
        "message": message,
        "reason": "Said",
    }


_BOTH = (owned(get("widgets@v1/a")), owned(get("widgets@v2/a")))

CASES = [
    case(
        "what an applier owns in one version is in conflict with an applier in another",
        _defined(),
        _v2("new", size=1, color="red"),
        _v1("old", length=2),
        _v1("old", length=2, color="blue"),
        _v1("old", length=1),
        _v1("old", length=2, force=True),
        *_BOTH,
        _v2("new", size=1, color="red"),
        _v2("new", size=1, color="red", force=True),
        *_BOTH,
    ),
    case(
        "what two appliers of two versions own stays until both let go",
        _defined(),
        _v1("old", length=1, color="red"),
        _v2("new", size=1, color="red"),
        _v1("old", color="red"),
        _v2("new", color="red"),
        _v1("old", length=3),
        _v2("new", size=3, color="red"),
        _v1("old", color="red"),
        _v2("new", color="red"),
        *_BOTH,
    ),
    case(
        "an applier that changes its version leaves nothing behind",
        _defined(),
        _v1(length=1, color="red", labels={"a": "1", "b": "2"}),
        _v2(size=1, labels={"a": "1"}),
        *_BOTH,
        _v2(color="red"),
        *_BOTH,
        _v1(length=4),
        _v1(color="blue"),
        *_BOTH,
    ),
    case(
        "an applier that changes its version leaves what another version owns",
        _defined(),
        _v1("old", length=1, color="red"),
        _v2("other", size=1),
        _v2("old"),
        *_BOTH,
    ),
    case(
        "an update in one version takes fields from an applier in another",
        _defined(),
        _v1("old", length=1, color="red"),
        owned(patch("widgets@v2/a", {"spec": {"size": 3}}, MERGE, fieldManager="updater")),
        *_BOTH,
        _v1("old", length=1, color="red"),
        owned(patch("widgets@v2/a", {"spec": {"size": None}}, MERGE, fieldManager="updater")),
        *_BOTH,
        _v1("old", length=1, color="red"),
        owned(patch("widgets@v1/a", {"spec": {"length": None}}, MERGE, fieldManager="updater")),
        *_BOTH,
    ),
    case(
        "a creator owns its fields in the version in which it created",
        _defined(),
        owned(create("widgets@v1", _widget("v1", length=1, color="red"), fieldManager="creator")),
        *_BOTH,
        _v2("new", size=2),
        _v2("new", size=1),
        _v2("new", size=2, force=True),
        *_BOTH,
        owned(patch("widgets@v2/a", {"spec": {"color": "blue"}}, MERGE, fieldManager="updater")),
        owned(get("widgets@v1")),
        owned(get("widgets@v2")),
    ),
    case(
        "a creator in a version that is not stored owns its fields there",
        _defined(),
        owned(create("widgets@v2", _widget("v2", size=1, color="red"), fieldManager="creator")),
        *_BOTH,
        owned(patch("widgets@v1/a", {"spec": {"length": 2}}, MERGE, fieldManager="updater")),
        *_BOTH,
        _v1("old", length=3, color="red"),
        _v1("old", length=3, color="red", force=True),
        *_BOTH,
    ),
    case(
        "a replacement in one version is compared with what others own in theirs",
        _defined(),
        _v2("new", size=1, color="red"),
        owned(
            put(
                "widgets@v1/a",
                based_on(2, {"apiVersion": "$ns.example.com/v1", "spec": {"size": None, "length": 5}}),
                fieldManager="replacer",
            )
        ),
        *_BOTH,
        owned(put("widgets@v1/a", based_on(3, {"spec": {"color": None}}), fieldManager="replacer")),
        *_BOTH,
    ),
    case(
        "items of lists have owners in several versions",
        _defined(),
        _v1("old", parts=[{"name": "x", "use": "a"}]),
        _v2("new", parts=[{"name": "y", "use": "b"}]),
        _v2("new", parts=[{"name": "x", "use": "c"}]),
        _v1("old"),
        *_BOTH,
        _v2("old", parts=[{"name": "z"}]),
        _v1("old"),
        *_BOTH,
    ),
    case(
        "a status has owners in several versions",
        _defined(),
        _v1("old", length=1),
        owned(patch("widgets@v2/a/status", {"status": {"phase": "x"}}, MERGE, fieldManager="controller")),
        apply("widgets@v1/a/status", {**_widget("v1"), "status": {"phase": "y"}}, manager="second"),
        apply("widgets@v1/a/status", {**_widget("v1"), "status": {"phase": "x"}}, manager="second"),
        apply("widgets@v2/a/status", {**_widget("v2"), "status": {"seen": 1}}, manager="second"),
        *_BOTH,
        owned(patch("widgets@v1/a/status", {"status": {"phase": "z"}}, MERGE, fieldManager="controller")),
        *_BOTH,
    ),
    case(
        "a dry run shows owners in several versions",
        _defined(),
        _v1("old", length=1),
        apply("widgets@v2/a", _widget("v2", size=1, color="red"), manager="new", dryRun="All"),
        owned(patch("widgets@v2/a", {"spec": {"size": 3}}, MERGE, fieldManager="new", dryRun="All")),
        *_BOTH,
    ),
    case(
        "an apply that changes nothing but the version of its owner",
        _defined(),
        _v1("old", length=1),
        _v2("old", size=1),
        _v2("old", size=1),
        _v1("old", length=1),
        *_BOTH,
    ),
    case(
        "owners in several versions without a conversion",
        define(crd(versions=[_version("v1", "length"), _version("v2", "length")])),
        _v1("old", length=1, color="red"),
        _v2("new", length=2),
        _v2("new", length=2, force=True),
        *_BOTH,
        _v2("old", color="red"),
        _v1("new", color="red"),
        *_BOTH,
    ),
    case(
        "owners in versions with unlike schemas without a conversion",
        define(crd(versions=[_version("v1", "length"), _version("v2", "size")])),
        _v1("old", length=1, color="red"),
        _v2("new", size=2),
        owned(get("widgets@v1/a")),
    ),
    case(
        "owners in a version whose conversion fails",
        _defined(),
        _v2("new", size=1),
        owned(
            patch(_CRD, {"spec": {"conversion": _conversion("convert-fails")}}, MERGE, only=("spec.names",))
        ),
        pause(),
        _v1("old", length=2),
        _v1("old", length=2, force=True),
        owned(patch("widgets@v1/a", {"spec": {"length": 3}}, MERGE, fieldManager="updater")),
        owned(get("widgets@v1/a")),
    ),
    case(
        "owners in a version that is served no longer",
        _defined(),
        _v2("new", size=1),
        owned(
            patch(
                _CRD,
                {
                    "spec": {
                        "versions": [_version("v1", "length"), {**_version("v2", "size"), "served": False}]
                    }
                },
                MERGE,
                only=("spec.names",),
            )
        ),
        pause(),
        _v1("old", length=2),
        _v1("old", length=2, force=True),
        owned(get("widgets@v1/a")),
    ),
    case(
        "owners in a version that is gone",
        _defined(),
        _v2("new", size=1),
        owned(patch(_CRD, {"spec": {"versions": [_version("v1", "length")]}}, MERGE, only=("spec.names",))),
        pause(),
        _v1("old", length=2),
        owned(get("widgets@v1/a")),
        owned(patch("widgets@v1/a", {"spec": {"length": 3}}, MERGE, fieldManager="updater")),
        owned(get("widgets@v1/a")),
        _v1("new", color="red"),
        owned(get("widgets@v1/a")),
    ),
    *(
        case(
            f"{what} goes with an applier that changes its version",
            _defined(),
            _v1(length=1, color="red", labels=labels),
            owned(patch("widgets@v1/a/status", {"status": {"phase": "x"}}, MERGE, fieldManager="controller")),
            _v2(size=1),
            *_BOTH,
            _v1(length=1),
            *_BOTH,
        )
        for what, labels in (("a field beside a status", None), ("a label beside a status", {"a": "1"}))
    ),
    case(
        "an applier lets go of a label that an updater in another version set too",
        _defined(),
        _v1(length=1, labels={"a": "1", "b": "1"}),
        owned(patch("widgets@v2/a", {"metadata": {"labels": {"c": "2"}}}, MERGE, fieldManager="updater")),
        _v1(length=1, labels={"a": "1"}),
        *_BOTH,
        _v1(length=1),
        *_BOTH,
    ),
    case(
        "owners of an event in one group are not known in the other",
        apply("events/a", _event(labels={"a": "1"}, message="hello"), manager="old"),
        owned(get(_NEW_EVENT)),
        apply(
            _NEW_EVENT,
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": "a", "namespace": "$ns", "labels": {"a": "2"}},
            },
            manager="new",
        ),
        owned(get("events/a")),
        owned(get(_NEW_EVENT)),
        owned(patch("events/a", {"metadata": {"labels": {"a": "3"}}}, MERGE, fieldManager="updater")),
        owned(get(_NEW_EVENT)),
    ),
]
