"""ResourceDistribution."""

from typing import Any, Final

from recorded_original.language import (
    NAMESPACE,
    Create,
    Delete,
    Document,
    Group,
    Patch,
    Settle,
    Try,
    TryPatch,
)
from recorded_original.scenarios.documents import BOTH, KRUISE, build_difference, build_scenario

__all__ = ["RESOURCE_DISTRIBUTION"]

_KIND: Final = "ResourceDistribution"
_A: Final = f"{NAMESPACE}-a"
_B: Final = f"{NAMESPACE}-b"


def _config(
    kind: str = "ConfigMap", name: str = "shared", data: Document | None = None, **more: Any
) -> Document:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name},
        "data": data or {"key": "djE="},
        **more,
    }


def _names(*names: str) -> Document:
    return {"includedNamespaces": {"list": [{"name": name} for name in names]}}


def _document(resource: Document | None = None, targets: Document | None = None) -> Document:
    spec = {"resource": resource or _config(), "targets": targets or _names(_A, _B)}
    return {"apiVersion": KRUISE, "kind": _KIND, "metadata": {"name": NAMESPACE}, "spec": spec}


def _shared(resource: Document | None = None, targets: Document | None = None) -> Create:
    return Create(_document(resource, targets))


def _change(**spec: Any) -> Patch:
    return Patch(_KIND, NAMESPACE, {"spec": spec})


_SELECTOR: Final[Document] = {"matchLabels": {"scenario": NAMESPACE}}
_TWO: Final[dict[str, Any]] = {"namespaces": (_A, _B), "versions": BOTH}


def _in(namespace: str, document: Document) -> Create:
    return Create({**document, "metadata": {**document["metadata"], "namespace": namespace}})


RESOURCE_DISTRIBUTION: Final = Group(
    kind=_KIND,
    differs=(
        build_difference(
            "the reason names the object or the namespace",
            "*/status/conditions/ConflictOccurred",
            "*/status/conditions/NamespaceNotExists",
        ),
    ),
    watched=("ConfigMap", "Secret"),
    scenarios=(
        build_scenario("a ConfigMap for two namespaces", _shared(), Settle(), **_TWO),
        build_scenario(
            "a Secret for two namespaces", _shared(_config("Secret", type="Opaque")), Settle(), **_TWO
        ),
        build_scenario(
            "namespaces by labels", _shared(targets={"namespaceLabelSelector": _SELECTOR}), Settle(), **_TWO
        ),
        build_scenario(
            "a namespace is left out",
            _shared(
                targets={"namespaceLabelSelector": _SELECTOR, "excludedNamespaces": {"list": [{"name": _A}]}}
            ),
            Settle(),
            **_TWO,
        ),
        build_scenario(
            "a namespace that does not exist",
            _shared(targets=_names(_A, f"{NAMESPACE}-none")),
            Settle(),
            **_TWO,
        ),
        build_scenario(
            "data are changed",
            _shared(),
            Settle(),
            _change(resource=_config(data={"key": "djI="})),
            Settle(),
            **_TWO,
        ),
        build_scenario(
            "labels and annotations",
            _shared(
                {**_config(), "metadata": {"name": "shared", "labels": {"a": "b"}, "annotations": {"c": "d"}}}
            ),
            Settle(),
            **_TWO,
        ),
        build_scenario(
            "something is in the way", _in(_A, _config(data={"own": "eA=="})), _shared(), Settle(), **_TWO
        ),
        build_scenario(
            "a namespace is taken out", _shared(), Settle(), _change(targets=_names(_A)), Settle(), **_TWO
        ),
        build_scenario("deleted", _shared(), Settle(), Delete(_KIND, NAMESPACE), Settle(), **_TWO),
        build_scenario("the smallest manifest", Try(_document()), Try(_document(_config("Secret"))), **_TWO),
        build_scenario(
            "wrong values",
            Try(_document(_config("Pod"))),
            Try(_document({"apiVersion": "v1", "kind": "ConfigMap"})),
            Try(_document(_config(name=""))),
            Try(_document(_config(name="UPPER"))),
            Try(_document(_config(data={"bad key!": "x"}))),
            Try(_document(_config("Secret", data={"key": "not base64!"}))),
            Try(_document(targets=_names("kube-system"))),
            Try(_document(targets=_names(_A, _A))),
            Try(
                _document(
                    targets={
                        "includedNamespaces": {"list": [{"name": _A}]},
                        "excludedNamespaces": {"list": [{"name": _A}]},
                    }
                )
            ),
            Try(
                _document(
                    targets={
                        "namespaceLabelSelector": {"matchExpressions": [{"key": "a", "operator": "Nonsense"}]}
                    }
                )
            ),
            Try(_document(targets=_names("UPPER"))),
            differs=(build_difference("the path leads to the field", "*/fields/metadata.name"),),
            **_TWO,
        ),
        build_scenario(
            "changes",
            _shared(),
            Settle(),
            TryPatch(_KIND, NAMESPACE, {"spec": {"resource": _config("Secret")}}),
            TryPatch(_KIND, NAMESPACE, {"spec": {"resource": _config(name="other")}}),
            TryPatch(_KIND, NAMESPACE, {"spec": {"resource": _config(data={"key": "djI="})}}),
            **_TWO,
        ),
    ),
)
