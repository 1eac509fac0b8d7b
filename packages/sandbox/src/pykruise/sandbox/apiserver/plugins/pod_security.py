"""Pod security of namespaces: pods must comply with the standard in the labels of their namespace.

writes.py ──▶ check(core, call, new, old) ──▶ Refusal (403 for a pod, 422 for a namespace), or the write continues

Same rules and messages as Kubernetes' admission plugin PodSecurity for the label `pod-security.kubernetes.io/enforce`.
The values of the labels `warn` and `audit` are checked, but have no effect. The rules of the standards are in
pod_security_standards.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import Cause
from pykruise.kube.ids import Key
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.schemas.releases import number_of
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.plugins.pod_security_standards import (
    CONTAINERS,
    LATEST,
    LEVELS,
    VERSION,
    PodSecurityPolicy,
    explain_violations,
)
from pykruise.sandbox.apiserver.requests.call import Call
from pykruise.sandbox.apiserver.requests.statuses import make_forbidden, make_invalid

_PREFIX: Final = "pod-security.kubernetes.io/"
_LABEL: Final = f"{_PREFIX}enforce"
_UNCHECKED: Final = frozenset({"binding", "eviction", "log", "status"})
"""Subresources of pods that the plugin ignores."""


def policy_of(labels: Mapping[str, str]) -> PodSecurityPolicy:
    """Return the policy. As in Kubernetes, an unreadable level is replaced by restricted, and an unreadable
    version by the latest version.
    """
    level, version = labels.get(_LABEL, LEVELS[0]), labels.get(f"{_LABEL}-version", LATEST)
    return PodSecurityPolicy(
        level if level in LEVELS else LEVELS[-1], version if VERSION.fullmatch(version) else LATEST
    )


def find_label_errors(labels: Mapping[str, str]) -> Iterator[Cause]:
    """Yield an error for each unreadable label of a namespace."""
    for mode in ("enforce", "audit", "warn"):
        level, version = labels.get(_PREFIX + mode), labels.get(f"{_PREFIX}{mode}-version")
        if level is not None and level not in LEVELS:
            detail = f"must be one of {', '.join(LEVELS)}"
            yield make_invalid_error(f"metadata.labels[{_PREFIX}{mode}]", level, detail)
        if version is not None and version != LATEST and VERSION.fullmatch(version) is None:
            detail = 'must be "latest" or "v1.x"'
            yield make_invalid_error(f"metadata.labels[{_PREFIX}{mode}-version]", version, detail)


def check(core: Core, call: Call, new: Document, old: Document | None) -> None:
    """Reject a pod that violates its namespace's standard, and a namespace with unreadable labels. Raises Refusal."""
    if call.entry.shelf == "pods" and call.subresource not in _UNCHECKED:
        _check_pod(core, call, new, old)
    elif call.entry.shelf == "namespaces" and not call.subresource:
        _check_namespace(new, old)


def _check_namespace(new: Document, old: Document | None) -> None:
    """Reject unreadable labels, except in a namespace that had such labels before."""
    causes = list(find_label_errors(new["metadata"].get("labels") or {}))
    if causes and not (old is not None and any(find_label_errors(old["metadata"].get("labels") or {}))):
        raise make_invalid("Namespace", "", new["metadata"]["name"], causes)


def _check_pod(core: Core, call: Call, new: Document, old: Document | None) -> None:
    namespace = core.storage.get("namespaces", Key("", call.namespace))
    if namespace is None or _LABEL.encode() not in namespace.raw:
        return
    if old is not None and not _is_significant(new, old):
        return
    policy = policy_of(decode(namespace.raw)["metadata"].get("labels") or {})
    _, minor = number_of(core.catalog.minor)
    if violations := explain_violations(new, policy, minor=minor):
        why = f"violates PodSecurity {quote_text(str(policy))}: {violations}"
        raise make_forbidden(call.entry.resource, new["metadata"].get("name") or "", why)


def _is_significant(new: Document, old: Document) -> bool:
    """Whether an update changes annotations, images or the list of containers. Other updates are not checked."""
    return new["metadata"].get("annotations") != old["metadata"].get("annotations") or any(
        _list_images(new, field) != _list_images(old, field) for field in CONTAINERS
    )


def _list_images(pod: Document, field: str) -> list[tuple[Any, Any]]:
    return [(each.get("name"), each.get("image")) for each in pod["spec"].get(field) or ()]
