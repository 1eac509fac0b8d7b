"""Kubernetes' built-in admission: additions to objects before any webhook is called.

writes.py ──▶ admit(core, call, new, old) ──▶ the document as admitted, or a Refusal

Fields that are added here have no manager. Same rules as kube-apiserver's admission plugins Priority, LimitRanger
(its defaults), RuntimeClass, ServiceAccount (where it is enabled) and DefaultTolerationSeconds. RBAC's check of
written roles is called here, too.
"""

from typing import Any, Final

from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS, Resource
from pykruise.sandbox.apiserver.access.escalation import check_grant
from pykruise.sandbox.apiserver.builtin.pod_spec import add_default_tolerations
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.plugins.limits import admit_pod
from pykruise.sandbox.apiserver.requests.call import Call
from pykruise.sandbox.apiserver.requests.statuses import Refusal, make_forbidden

_RUNTIMES: Final = "runtimeclasses.node.k8s.io"
_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_PREEMPTS: Final = "PreemptLowerPriority"
_SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def admit(core: Core, call: Call, doc: Document, old: Document | None) -> Document:
    """Add the fields that admission sets. Return the document; it may be the changed `doc`. Raises Refusal (403)."""
    if core.authorizer is not None and not call.subresource:
        check_grant(core.authorizer, call, doc)
    if call.entry.shelf == _CLASSES and doc.get("globalDefault"):
        _check_only_default(core, call, doc, is_new=old is None)
    if call.entry.shelf == "pods" and isinstance(spec := doc.get("spec"), dict):
        if old is None:
            name = spec.get("priorityClassName")
            give_priority(
                doc,
                _find_priority_class(core, name) if name else _find_default_class(core),
                call.entry.resource,
            )
            admit_pod(core, call, doc)
            if not call.subresource:
                _admit_account(core, call, doc)
        elif spec == old.get("spec"):
            return doc
        if not call.subresource:
            add_default_tolerations(spec)
            if old is None:
                _give_runtime(core, call, doc)
    return doc


def _admit_account(core: Core, call: Call, pod: Document) -> None:
    if not core.service_accounts and not (core.checks_accounts and pod["spec"].get("serviceAccountName")):
        return
    from pykruise.sandbox.apiserver.plugins.pod_accounts import check_account, give_account

    if core.service_accounts:
        give_account(core, call, pod)
    else:
        check_account(core, call, pod)


def give_priority(pod: Document, result: Document | None, resource: Resource = PODS) -> None:
    """Set the priority and the preemption policy of the pod's priority class. Raises Refusal (403)."""
    spec: dict[str, Any] = pod["spec"]
    name = spec.get("priorityClassName")
    if result is None and name:
        why = f"no PriorityClass with name {name} was found"
        raise make_forbidden(resource, pod["metadata"].get("name") or "", why)
    if result is None:
        value, policy = 0, _PREEMPTS
    else:
        spec["priorityClassName"] = result["metadata"]["name"]
        value, policy = result.get("value") or 0, result.get("preemptionPolicy") or _PREEMPTS
    for field, admitted, what in (
        ("priority", value, "integer value of priority"),
        ("preemptionPolicy", policy, "string value of preemptionPolicy"),
    ):
        said = spec.get(field)
        if said is not None and said != admitted:
            why = (
                f"the {what} ({said}) must not be provided in pod spec; priority admission controller "
                f"computed {admitted} from the given PriorityClass name"
            )
            raise make_forbidden(resource, pod["metadata"].get("name") or "", why)
        spec[field] = admitted


def _give_runtime(core: Core, call: Call, pod: Document) -> None:
    """Set the overhead, node selector and tolerations of the pod's runtime class. Raises Refusal (403)."""
    spec: dict[str, Any] = pod["spec"]
    name, overhead = spec.get("runtimeClassName"), spec.get("overhead")
    result: Document = {}
    if name:
        stored = core.storage.get(_RUNTIMES, Key("", name))
        if stored is None:
            raise _make_rejection(call, pod, f'RuntimeClass "{name}" not found')
        result = decode(stored.raw)
    fixed = (result.get("overhead") or {}).get("podFixed")
    if overhead and (not fixed or overhead != fixed):
        why = "Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise _make_rejection(
            call,
            pod,
            why if fixed else "Pod Overhead set without corresponding RuntimeClass defined Overhead",
        )
    if fixed:
        spec["overhead"] = dict(fixed)
    scheduling = result.get("scheduling") or {}
    wanted, selector = scheduling.get("nodeSelector") or {}, spec.get("nodeSelector") or {}
    for key, value in wanted.items():
        if selector.get(key, value) != value:
            why = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
            raise make_forbidden(call.entry.resource, pod["metadata"].get("name") or "", why)
    if wanted:
        spec["nodeSelector"] = {**selector, **wanted}
    tolerations = spec.get("tolerations") or []
    if added := [each for each in scheduling.get("tolerations") or () if each not in tolerations]:
        spec["tolerations"] = [*tolerations, *added]


def _make_rejection(call: Call, pod: Document, why: str) -> Refusal:
    return make_forbidden(call.entry.resource, pod["metadata"].get("name") or "", f"pod rejected: {why}")


def find_system_class(name: str) -> Document | None:
    """Return one of the two priority classes that every cluster has; None for other names."""
    value = _SYSTEM.get(name)
    return {"metadata": {"name": name}, "value": value} if value is not None else None


def _find_priority_class(core: Core, name: str) -> Document | None:
    stored = core.storage.get(_CLASSES, Key("", name))
    return decode(stored.raw) if stored is not None else find_system_class(name)


def _check_only_default(core: Core, call: Call, doc: Document, *, is_new: bool) -> None:
    """Check that no other priority class is the default. Raises Refusal (403)."""
    default, name = _find_default_class(core), doc["metadata"].get("name") or ""
    if default is None or (not is_new and default["metadata"]["name"] == name):
        return
    why = f"PriorityClass {default['metadata']['name']} is already marked as default. Only one default can exist"
    raise make_forbidden(call.entry.resource, name, why)


def _find_default_class(core: Core) -> Document | None:
    """The priority class of pods that name none. If several classes are marked as default, the lowest value wins."""
    page = core.storage.scan(_CLASSES)
    result = [doc for doc in map(decode, (each.raw for each in page.items)) if doc.get("globalDefault")]
    return min(result, key=lambda doc: int(doc.get("value") or 0), default=None)
