"""Validation of a CloneSet that a client wrote in v1alpha1: the rules that exist only in v1alpha1.

AdmissionRequest in v1alpha1 ──▶ make_spoke_rules().errors() ──▶ the field errors of these rules
field of a v1beta1 error     ──▶ make_spoke_rules().field_of() ──▶ its name in v1alpha1; None if v1alpha1 has no rule

validation.py contains all other rules, and checks the object after its conversion to v1beta1. The rules in this module
need the original object, because the conversion turns an unknown type into ReCreate. Pure, except for the lookup of
pods, which is an argument. Rule numbers refer to the table in the specification.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.cloneset.types import NO_DEADLINE
from pykruise.kube.admission import AdmissionRequest, SpokeRules, is_reviewed_write
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import Cause, KubeError
from pykruise.kube.pod_rules.field_errors import make_forbidden_error, make_invalid_error
from pykruise.kube.pod_rules.field_rules import check_not_negative
from pykruise.kube.values.owners import controller_of
from pykruise.plans.review import PodLookup
from pykruise.pods.api import PodUpdatePolicy, UpdateType
from pykruise.pods.in_place import diff_specs

TYPES: Final = (*PodUpdatePolicy, UpdateType.ON_DELETE.value)
"""Allowed values of `updateStrategy.type`. OpenKruise's webhook does not accept OnDelete, although its API defines it,
and so rejects every write to an object with OnDelete.
"""

_PODS_TO_DELETE: Final = "spec.scaleStrategy.podsToDelete"
_BLOCK: Final = "spec.updateStrategy.rollingUpdate"
_PRE_DOWNLOAD: Final = f"{_BLOCK}.inPlaceUpdateStrategy.imagePreDownload"


def make_spoke_rules(pods: PodLookup | None = None, *, resources_in_place: bool = False) -> SpokeRules:
    """Return the rules of v1alpha1. Without the lookup `pods`, an update can list any name in podsToDelete.

    `resources_in_place`: whether the gate InPlaceWorkloadVerticalScaling is on, so that cpu and memory change in place.
    """

    async def errors(request: AdmissionRequest) -> Sequence[Cause]:
        doc, old = request.object, request.old_object
        if doc is None or not is_reviewed_write(request):
            return ()
        causes = await _find_pods_to_delete_errors(doc, old, request.namespace, pods)
        causes += _find_type_errors(doc, old)
        causes += _find_deadline_errors(doc, old)
        if old is not None:
            causes += _find_in_place_only_errors(doc, old, resources_in_place=resources_in_place)
        return causes

    return SpokeRules(errors=errors, field_of=field_of)


def field_of(field: str) -> str | None:
    """Return the name in v1alpha1 of a field of v1beta1; None if v1alpha1 does not report errors of this field."""
    if field.startswith(_PRE_DOWNLOAD):
        return None  # rules 21 and 22: in v1alpha1, these values are annotations, which are not checked
    if field == f"{_BLOCK}.podUpdatePolicy":
        return "spec.updateStrategy.type"
    return field.replace(_BLOCK, "spec.updateStrategy")


async def _find_pods_to_delete_errors(
    doc: Document, old: Document | None, namespace: str, pods: PodLookup | None
) -> list[Cause]:
    """Return the errors of rule 10. If a name is listed twice, only rule 9 reports an error."""
    names = _list_pods_to_delete(doc)
    if len(set(names)) < len(names):
        return []
    known = set(_list_pods_to_delete(old))
    uid = get_path(old, "metadata", "uid")
    errors = []
    for name in names:
        if name in known:
            continue
        problem = (
            "a new CloneSet has no pods" if old is None else await _find_problem(name, namespace, uid, pods)
        )
        if problem:
            errors.append(make_invalid_error(_PODS_TO_DELETE, name, problem))
    return errors


async def _find_problem(name: str, namespace: str, uid: str | None, pods: PodLookup | None) -> str:
    """Return why the CloneSet with this uid cannot delete the pod; empty if it can."""
    if pods is None:
        return ""
    try:
        pod = await pods(namespace, name)
    except KubeError as error:
        return f"the pod cannot be looked up: {error}"
    if pod is None:
        return "the pod does not exist"
    if get_path(pod, "metadata", "deletionTimestamp"):
        return "the pod is already being deleted"
    owner = controller_of(pod)
    return "" if owner is not None and owner.uid == uid else "the pod does not belong to this CloneSet"


def _list_pods_to_delete(doc: Document | None) -> list[str]:
    listed = get_path(doc, "spec", "scaleStrategy", "podsToDelete")
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []


def _find_type_errors(doc: Document, old: Document | None) -> Iterator[Cause]:
    """Yield the errors of rule 11a. An absent type is allowed: the mutating webhook sets it to ReCreate. An unchanged
    type is not checked again.
    """
    kind, stored = (get_path(entry, "spec", "updateStrategy", "type") for entry in (doc, old))
    if kind and kind != stored and kind not in TYPES:
        yield make_invalid_error("spec.updateStrategy.type", kind, f"must be one of {', '.join(TYPES)}")


def _find_deadline_errors(doc: Document, old: Document | None) -> Iterator[Cause]:
    """Yield the errors of rule 20. Unchanged seconds are not checked again: v1beta1 has no such rule, so its clients
    can store them.
    """
    field = "spec.progressDeadlineSeconds"
    (deadline_s, ready_s), stored = (
        [get_path(entry, "spec", name) for name in ("progressDeadlineSeconds", "minReadySeconds")]
        for entry in (doc, old)
    )
    if (
        deadline_s is None
        or deadline_s == NO_DEADLINE
        or (old is not None and [deadline_s, ready_s] == stored)
    ):
        return
    yield from check_not_negative(deadline_s, field)
    if deadline_s <= (ready_s or 0):
        yield make_invalid_error(field, deadline_s, "must be greater than minReadySeconds")


def _find_in_place_only_errors(doc: Document, old: Document, *, resources_in_place: bool) -> Iterator[Cause]:
    """Yield the errors of section 5.2: under InPlaceOnly, only fields can be changed that an in-place update can
    change.
    """
    if get_path(doc, "spec", "updateStrategy", "type") != PodUpdatePolicy.IN_PLACE_ONLY:
        return
    operations = diff_specs(*(get_path(entry, "spec", "template") for entry in (old, doc)))
    others = [each["path"] for each in operations if not _is_in_place(each, resources=resources_in_place)]
    if others:
        allowed = "images, cpu and memory" if resources_in_place else "images"
        changed = ", ".join(f"spec.template{path.replace('/', '.')}" for path in others)
        yield make_forbidden_error(
            "spec", f"only {allowed} may change in spec.template.spec under InPlaceOnly, not {changed}"
        )


def _is_in_place(operation: Mapping[str, Any], *, resources: bool) -> bool:
    if operation["op"] != "replace":
        return False
    match operation["path"].split("/")[1:]:
        case ["spec", "containers", _, "image"]:
            return True
        case ["spec", "containers", _, "resources", "limits" | "requests", "cpu" | "memory"]:
            return resources
    return False
