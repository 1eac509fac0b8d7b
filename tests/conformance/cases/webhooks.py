"""Webhooks that the API server calls: which ones it calls, in which order, and how it uses their responses."""

from typing import Any

from conformance.builders import config_map, crd, deployment, pod, with_
from conformance.dsl import MERGE, Step, based_on, case, create, define, delete, get, patch, pause, put

_MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def _hook(path: str, *, name: str = "", **more: Any) -> dict[str, Any]:
    """A webhook for ConfigMaps of the case's namespace, unless `more` changes this."""
    return {
        "name": f"{name or path.replace('/', '-')}.example.com",
        "clientConfig": {"url": f"$hook/{path}", "caBundle": "$bundle"},
        "rules": [_rule()],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "$ns"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
        **more,
    }


def _rule(
    *resources: str,
    groups: str = "",
    version: str = "v1",
    operations: tuple[str, ...] = ("CREATE", "UPDATE"),
    **more: Any,
) -> dict[str, Any]:
    return {
        "apiGroups": [groups],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": list(resources or ("configmaps",)),
        **more,
    }


def _configured(*hooks: dict[str, Any], mutating: bool = False, name: str = "$ns") -> list[Step]:
    kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
    doc = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": list(hooks),
    }
    return [create(_MUTATING if mutating else _VALIDATING, doc), pause()]


def _gone(*, mutating: bool = False, name: str = "$ns") -> Step:
    return delete(f"{_MUTATING if mutating else _VALIDATING}/{name}")


def _refuses(path: str, **more: Any) -> dict[str, Any]:
    """A webhook that the server calls only for the object with the webhook's name."""
    name = path.replace("/", "-")
    return _hook(path, objectSelector={"matchLabels": {"ask": name}}, **more)


def _asking(path: str, name: str = "") -> Step:
    hook = path.replace("/", "-")
    return create("configmaps", with_(config_map(name or f"x-{hook}"), labels={"ask": hook}))


def _widget(name: str, version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"$ns.example.com/{version}",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }


def _converted(path: str) -> dict[str, Any]:
    """A CRD for whose version v2 a webhook converts objects."""
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return crd(
        conversion={
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"url": f"$hook/{path}", "caBundle": "$bundle"},
                "conversionReviewVersions": ["v1"],
            },
        },
        versions=[
            {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
        ],
    )


_ANSWERS = (
    "deny",
    "deny-reason",
    "deny-message",
    "deny-details",
    "deny-code",
    "warn",
    "allow",
    "wrong-uid",
    "status/500",
    "status/404",
    "status/403",
    "status/503",
    "status/418",
    "text",
    "empty",
    "slow",
)
_PATCHES = ("bad-patch", "patch-without-type", "odd-patch-type")


CASES = [
    case(
        "what webhooks answer is passed on",
        *_configured(*(_refuses(path) for path in _ANSWERS)),
        *(_asking(path) for path in _ANSWERS),
        _gone(),
    ),
    case(
        "a webhook that may fail does not matter",
        *_configured(
            *(_refuses(path, failurePolicy="Ignore") for path in ("status/500", "slow", "text", "deny"))
        ),
        *(_asking(path) for path in ("status/500", "slow", "text", "deny")),
        _gone(),
    ),
    case(
        "patches of mutating webhooks are applied, or refused",
        *_configured(_refuses("patch/a"), *(_refuses(path) for path in _PATCHES), mutating=True),
        _asking("patch/a", "a"),
        *(_asking(path) for path in _PATCHES),
        patch("configmaps/a", {"metadata": {"annotations": None}}, MERGE),
        put("configmaps/a", based_on(3, {"metadata": {"annotations": None, "resourceVersion": None}})),
        create("configmaps", with_(config_map("b"), labels={"ask": "patch-a"}), dryRun="All"),
        get("configmaps/b"),
        _gone(mutating=True),
    ),
    case(
        "mutating webhooks go by the names of their configurations, and some are asked again",
        *_configured(
            _hook("count", reinvocationPolicy="IfNeeded"),
            _hook("patch/z", reinvocationPolicy="IfNeeded"),
            mutating=True,
            name="a-$ns",
        ),
        *_configured(_hook("patch/b"), mutating=True, name="b-$ns"),
        create("configmaps", config_map("a")),
        create("configmaps", with_(config_map("b"), annotations={"b": "yes", "z": "yes"})),
        _gone(mutating=True, name="a-$ns"),
        _gone(mutating=True, name="b-$ns"),
    ),
    case(
        "a webhook sees what it asks for",
        *_configured(
            _hook(
                "tell",
                rules=[
                    _rule("configmaps", "pods", "pods/status", "pods/binding", "secrets", operations=("*",)),
                    _rule("deployments", "deployments/scale", groups="apps"),
                ],
            ),
        ),
        create("configmaps", config_map("a")),
        create("configmaps", config_map("b"), dryRun="All"),
        patch("configmaps/a", {"data": {"x": "1"}}, MERGE),
        put("configmaps/a", based_on(3, {"data": {"y": "1"}, "metadata": {"resourceVersion": None}})),
        delete("configmaps/a"),
        delete("configmaps/none"),
        create("pods", pod("p")),
        patch("pods/p/status", {"status": {"phase": "Running"}}, MERGE),
        create("deployments", deployment()),
        patch("deployments/web/scale", {"spec": {"replicas": 3}}, MERGE),
        delete("deployments/web"),
        create("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "x"}}),
        _gone(),
    ),
    case(
        "rules match by group, version, resource and scope",
        *_configured(
            _hook("tell", name="a", rules=[_rule("*", groups="*", version="*", scope="Cluster")]),
            _hook("tell", name="b", rules=[_rule("pods/*")]),
            _hook("tell", name="c", rules=[_rule("configmaps", version="v2")]),
            _hook("tell", name="d", rules=[_rule("configmaps", groups="apps")]),
        ),
        create("configmaps", config_map("a")),
        create("pods", pod("p")),
        patch("pods/p/status", {"status": {"phase": "Running"}}, MERGE),
        _gone(),
    ),
    case(
        "conditions decide whether a webhook is asked",
        *_configured(
            _hook(
                "deny", name="a", matchConditions=[{"name": "x", "expression": "object.metadata.name == 'a'"}]
            ),
            _hook(
                "deny",
                name="b",
                matchConditions=[
                    {
                        "name": "x",
                        "expression": "has(object.metadata.labels) && 'b' in object.metadata.labels",
                    },
                    {"name": "y", "expression": "request.operation == 'UPDATE'"},
                ],
            ),
            _hook(
                "deny",
                name="c",
                matchConditions=[
                    {"name": "x", "expression": "object.metadata.name == 'c'"},
                    {"name": "y", "expression": "object.data.none == 'x'"},
                ],
            ),
            _hook(
                "deny",
                name="d",
                failurePolicy="Ignore",
                matchConditions=[
                    {"name": "x", "expression": "object.metadata.name == 'd' && object.data.none == 'x'"}
                ],
            ),
            _hook(
                "deny",
                name="e",
                matchConditions=[
                    {
                        "name": "x",
                        "expression": "object.metadata.name == 'e' && oldObject != null && object != oldObject",
                    }
                ],
            ),
        ),
        create("configmaps", config_map("a")),
        create("configmaps", with_(config_map("b"), labels={"b": "1"})),
        patch("configmaps/b", {"data": {"x": "1"}}, MERGE),
        create("configmaps", config_map("c"), only=("code", "reason")),
        create("configmaps", config_map("d")),
        create("configmaps", config_map("e", x="1")),
        patch("configmaps/e", {"data": {"x": "2"}}, MERGE),
        _gone(),
    ),
    case(
        "a condition must be an expression",
        create(
            _VALIDATING,
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "$ns"},
                "webhooks": [_hook("allow", matchConditions=[{"name": "x", "expression": "object.x =="}])],
            },
            only=("code", "reason", "details.causes.0.field", "details.causes.0.reason"),
        ),
        create(
            _VALIDATING,
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "$ns"},
                "webhooks": [_hook("allow", matchConditions=[{"name": "x", "expression": "nope(object)"}])],
            },
            only=("code", "reason", "details.causes.0.field", "details.causes.0.reason"),
        ),
    ),
    case(
        "configurations are not seen by webhooks",
        *_configured(
            _hook(
                "deny",
                namespaceSelector={},
                rules=[_rule("validatingwebhookconfigurations", groups="admissionregistration.k8s.io")],
            )
        ),
        patch(f"{_VALIDATING}/$ns", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        _gone(),
    ),
    case(
        "services and closed ports cannot be asked",
        *_configured(
            _hook(
                "none",
                objectSelector={"matchLabels": {"ask": "service"}},
                clientConfig={
                    "service": {"name": "none", "namespace": "$ns", "path": "/x"},
                    "caBundle": "$bundle",
                },
            ),
            _hook(
                "closed",
                objectSelector={"matchLabels": {"ask": "closed"}},
                clientConfig={"url": "https://127.0.0.1:2/x", "caBundle": "$bundle"},
            ),
        ),
        create("configmaps", with_(config_map("a"), labels={"ask": "service"})),
        create("configmaps", with_(config_map("b"), labels={"ask": "closed"})),
        _gone(),
    ),
    *(
        case(
            title,
            define(_converted(path)),
            create("widgets@v1", _widget("a", length=1)),
            create("widgets@v2", _widget("b", "v2", size=2)),
            get("widgets@v2/a"),
            get("widgets@v1/b"),
            *([get("widgets@v2")] if path == "convert" else []),
            patch("widgets@v2/a", {"spec": {"size": 5}}, MERGE),
            get("widgets@v1/a"),
            patch("widgets@v2/a", {"metadata": {"labels": {"l": "1"}}}, MERGE),
            delete("widgets@v2/b"),
        )
        for title, path in (
            ("versions of a custom resource are converted by a webhook", "convert"),
            ("conversion that fails fails the request", "convert-fails"),
            ("conversion must give as many objects", "convert-none"),
            ("conversion must give the version asked for", "convert-wrong-version"),
            ("conversion must keep the name", "convert-wrong-name"),
            ("conversion must answer what was asked", "convert-wrong-uid"),
            ("conversion that ends with an HTTP error", "status/500"),
        )
    ),
]
