"""Operations on an object besides reading and writing it: binding a pod, evicting it, finalizing a namespace.

server.py ──▶ bind(), evict(), finalize() ──▶ ordinary writes and deletions ──▶ CallAnswer
          ──▶ connect() ──▶ rejected: there are no processes
"""

from typing import Any, Final

import orjson

from pykruise.kube.clock import format_time
from pykruise.kube.documents import Document, decode, encode_canonical
from pykruise.kube.errors import Cause
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.sandbox.apiserver.builtin.pods import BindError, check_binding
from pykruise.sandbox.apiserver.builtin.pods import bind as bind_pod
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.objects.storage import Stored
from pykruise.sandbox.apiserver.requests import decoding
from pykruise.sandbox.apiserver.requests.call import Call, CallAnswer, check_write_options
from pykruise.sandbox.apiserver.requests.deletion import (
    DeletionOptions,
    check_preconditions,
    delete_stored,
    options_of,
)
from pykruise.sandbox.apiserver.requests.negotiation import read_body
from pykruise.sandbox.apiserver.requests.statuses import (
    MODIFIED_MEANWHILE,
    make_bad_request,
    make_conflict,
    make_no_process_refusal,
    make_not_found,
    make_too_many_requests,
    make_unclassified_error,
)
from pykruise.sandbox.apiserver.requests.writes import modify, review

_CREATED: Final = encode_canonical(
    {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
)
_BINDING: Final = Resource("", "v1", "pods/binding", "Binding")
_BUDGETS: Final = "poddisruptionbudgets.policy"
_FINISHED: Final = ("Succeeded", "Failed")


async def connect(core: Core, call: Call) -> CallAnswer:
    """Reject `exec`, `attach` and `port-forward`. Raises Refusal: 404 when the pod does not exist, else 501."""
    if core.get(call.entry, call.namespace, call.name) is None:
        raise make_not_found(call.entry.resource, call.name)
    raise make_no_process_refusal(call.subresource)


# --- binding ----------------------------------------


async def bind(core: Core, call: Call) -> CallAnswer:
    """Assign the pod to the node that the Binding in the body names. Raises Refusal."""
    check_write_options(call, "CreateOptions")
    binding = read_body(call.headers, call.body, what="Binding")
    meta = _read_object_member(binding, "metadata")
    _read_object_member(binding, "target")
    name = call.name or meta.get("name")
    if not isinstance(name, str) or not name:
        raise make_bad_request("name must be provided")
    if call.name and meta.get("name", call.name) != call.name:
        raise make_bad_request("name in URL does not match name in Binding object")
    if meta.get("namespace", call.namespace) != call.namespace:
        raise make_bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if causes := check_binding(binding):
        texts = [f"{cause.field}: {cause.message}" for cause in causes]
        raise make_unclassified_error(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    stored = core.get(call.entry, call.namespace, name)
    if stored is not None and core.admission.concerns(call.entry.resource, "binding", "CREATE"):
        await core.admission.validate(review(core, call, "CREATE", binding, None))
        stored = core.get(call.entry, call.namespace, name)
    if stored is None:
        raise make_not_found(call.entry.resource, name)
    if (uid := meta.get("uid")) and uid != stored.uid:
        text = (
            f"StorageError: invalid object, Code: 4, Key: /registry/pods/{call.namespace}/{name}, "
            f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
            f"UID in object meta: {stored.uid}"
        )
        raise make_conflict(call.entry.resource, name, text)
    if (version := meta.get("resourceVersion")) and version != str(stored.revision):
        raise make_conflict(call.entry.resource, name, MODIFIED_MEANWHILE)
    try:
        doc = bind_pod(decode(stored.raw), binding, now=core.clock())
    except BindError as err:
        raise make_conflict(_BINDING, name, str(err)) from err
    if not call.dry_run:
        managed = core.ownership.record_server_change(call.entry, stored.managed, decode(stored.raw), doc)
        core.put(call.entry, stored, doc, managed=managed)
    return CallAnswer(201, _CREATED, is_object=False)


# --- eviction ----------------------------------------


async def evict(core: Core, call: Call) -> CallAnswer:
    """Delete the pod if its disruption budget allows the eviction now. Raises Refusal (429 if it does not)."""
    check_write_options(call, "CreateOptions")
    eviction = read_body(call.headers, call.body, what="Eviction")
    _check_eviction(eviction)
    meta = _read_object_member(eviction, "metadata")
    if meta.get("name", call.name) != call.name:
        raise make_bad_request("name in URL does not match name in Eviction object")
    options = _read_eviction_options(call, eviction)
    stored = core.get(call.entry, call.namespace, call.name)
    if stored is None:
        raise make_not_found(call.entry.resource, call.name)
    if core.admission.concerns(call.entry.resource, "eviction", "CREATE"):
        await core.admission.validate(review(core, call, "CREATE", eviction, None))
        stored = core.get(call.entry, call.namespace, call.name)
        if stored is None:
            raise make_not_found(call.entry.resource, call.name)
    check_preconditions(call, options, stored)
    pod = decode(stored.raw)
    if not _is_free_to_evict(pod):
        _spend_disruption(core, call, pod, dry_run=options.dry_run)
    if not options.dry_run:
        marked = core.put(call.entry, stored, _mark_evicted(pod, format_time(core.clock())))
        if options.resource_version:
            options = options._replace(resource_version=str(marked.revision))
    await delete_stored(core, call, options, ask_reviewers=False)
    return CallAnswer(201, _CREATED, is_object=False)


def _check_eviction(eviction: Document) -> None:
    """Check that the posted object is an Eviction, if it has a kind."""
    kind, version = eviction.get("kind") or "Eviction", eviction.get("apiVersion") or "policy/v1"
    if kind != "Eviction":
        shown = str(version).rpartition("/")[2]
        raise make_bad_request(
            f'{kind} in version "{shown}" cannot be handled as a Eviction: '
            f"converting ({shown}.{kind}) to (policy.Eviction): unknown conversion"
        )


def _mark_evicted(pod: Document, now: str) -> Document:
    """Set the pod's condition that tells controllers the reason of its deletion."""
    status: dict[str, Any] = pod.setdefault("status", {})
    wanted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    conditions: list[Document] = status.setdefault("conditions", [])
    for condition in conditions:
        if condition.get("type") == wanted["type"]:
            if condition.get("status") != "True":
                condition["lastTransitionTime"] = now
            condition.update(wanted)
            return pod
    conditions.append({**wanted, "lastProbeTime": None, "lastTransitionTime": now})
    return pod


def _read_eviction_options(call: Call, eviction: Document) -> DeletionOptions:
    from msgspec.structs import replace

    wanted = _read_object_member(eviction, "deleteOptions")
    return options_of(replace(call, body=orjson.dumps(wanted), headers={}))


def _is_free_to_evict(pod: Document) -> bool:
    """Whether the eviction needs no budget, because the pod is finished, not running yet, or terminating."""
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    return phase in (*_FINISHED, "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _spend_disruption(core: Core, call: Call, pod: Document, *, dry_run: bool) -> None:
    """Take one disruption from the pod's budget. Raises Refusal (429) when the budget has none left."""
    budgets = _list_budgets(core, call.namespace, pod)
    if not budgets:
        return
    if len(budgets) > 1:
        raise make_unclassified_error(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    stored, budget = budgets[0]
    status: dict[str, Any] = budget.setdefault("status", {})
    name = stored.key.name
    if (status.get("observedGeneration") or 0) < (budget["metadata"].get("generation") or 0):
        text = f"The disruption budget {name} is still being processed by the server."
        raise _make_budget_refusal(text, retry_after_s=10)
    if len(status.get("disruptedPods") or {}) > 2_000:
        raise _make_budget_refusal(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        )
    if _costs_nothing(budget, pod):
        return
    allowed = status.get("disruptionsAllowed") or 0
    if allowed <= 0:
        raise _make_budget_refusal(_explain_spent_budget(name, status))
    if dry_run:
        return
    status["disruptionsAllowed"] = allowed - 1
    status.setdefault("disruptedPods", {})[call.name] = format_time(core.clock())
    _set_disruption_allowed(budget, format_time(core.clock()))
    entry = core.catalog.find_shelf_entry(_BUDGETS)
    assert entry is not None
    core.put(entry, stored, budget)


def _explain_spent_budget(name: str, status: Document) -> str:
    """Why a budget allows no disruption. API servers of Kubernetes 1.32 give only the numbers."""
    healthy, needed = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    reason, message = next(
        (
            (condition.get("reason"), condition.get("message") or "")
            for condition in status.get("conditions") or ()
            if condition.get("type") == "DisruptionAllowed" and condition.get("status") == "False"
        ),
        ("", ""),
    )
    text = f"The disruption budget {name} does not allow evicting pods currently"
    if message and reason == "SyncFailed":
        return f"{text} because it failed sync: {message}"
    if healthy <= needed:
        return f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
    return f"{text} ({reason}): {message}" if message else text


def _set_disruption_allowed(budget: Document, now: str) -> None:
    """Set the budget's condition DisruptionAllowed according to its numbers."""
    status = budget["status"]
    allowed = (status.get("disruptionsAllowed") or 0) > 0
    wanted = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "observedGeneration": status.get("observedGeneration") or 0,
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
    conditions: list[Document] = status.setdefault("conditions", [])
    for condition in conditions:
        if condition.get("type") == wanted["type"]:
            if condition.get("status") != wanted["status"]:
                condition["lastTransitionTime"] = now
            condition.update(wanted)
            return
    conditions.append({**wanted, "lastTransitionTime": now})


def _costs_nothing(budget: Document, pod: Document) -> bool:
    """Whether an unhealthy pod may be evicted without spending a disruption."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget["status"]
    desired = status.get("desiredHealthy") or 0
    return bool(desired > 0 and (status.get("currentHealthy") or 0) >= desired)


def _list_budgets(core: Core, namespace: str, pod: Document) -> list[tuple[Stored, Document]]:
    labels = pod["metadata"].get("labels") or {}
    budgets = []
    for stored in core.storage.scan(_BUDGETS, namespace=namespace).items:
        budget = decode(stored.raw)
        try:
            if parse_selector((budget.get("spec") or {}).get("selector")).matches(labels):
                budgets.append((stored, budget))
        except SelectorError:
            continue
    return budgets


def _make_budget_refusal(why: str, *, retry_after_s: int = 0) -> Exception:
    cause = Cause(reason="DisruptionBudget", message=why)
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    return make_too_many_requests(text, retry_after_s=retry_after_s, causes=[cause])


# --- namespaces ----------------------------------------


async def finalize(core: Core, call: Call) -> CallAnswer:
    """PUT of a namespace's spec.finalizers. A terminating namespace is removed with its last finalizer. Raises
    Refusal.
    """
    check_write_options(call, "UpdateOptions")
    raw = encode_canonical(decoding.decode_body(call))
    if core.storage.get(call.entry.shelf, Key("", call.name)) is None:
        raise make_not_found(call.entry.resource, call.name)
    return await modify(core, call, lambda doc, stored: decode(raw), replaces=True)


def _read_object_member(doc: Document, member: str) -> Document:
    value = doc.get(member)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise make_bad_request(f"cannot be read: {member} must be an object")
    return value
