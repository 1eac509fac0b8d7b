"""Pods that a SidecarSet selects but that lack its sidecars, each with the reason.

SidecarSetSnapshot ──▶ find_pods_without() ──▶ the plan's `skipped`, and the output of explain

Pure. The reasons follow from the rules of injection: admission injects sidecars only when a pod is created.
"""

from collections.abc import Mapping
from typing import Final

from pykruise.kinds.sidecarset.snapshot import SelectedPod, SidecarSetSnapshot
from pykruise.plans.unreviewed_namespaces import EXCLUDED_LABEL, find_unreviewed
from pykruise.pods.reasons import ONE_AT_A_TIME, Code
from pykruise.pods.view.sidecars import list_injected_sets
from pykruise.runtime.reasons import Reason

_RECREATE: Final = f"recreate the pods {ONE_AT_A_TIME}: new pods get the sidecars"
_RESUME_AND_RECREATE: Final = f"set spec.injectionStrategy.paused to false, then {_RECREATE}"


def find_pods_without(snapshot: SidecarSetSnapshot) -> Mapping[str, Reason]:
    """Return the reason why each selected pod lacks the SidecarSet's sidecars, by the `namespace/name` of the pod."""
    managed = {pod.label for pod in snapshot.pods}
    return {
        selected.label: _explain_missing_sidecars(selected, snapshot)
        for selected in snapshot.selected
        if selected.label not in managed
    }


def _explain_missing_sidecars(selected: SelectedPod, snapshot: SidecarSetSnapshot) -> Reason:
    view, listed = snapshot.sidecarset, list_injected_sets(selected.pod.annotations)
    canary = next((name for name in snapshot.canaries if name in listed), "")
    if canary:
        return Reason(
            Code.CANARY, f"it has the sidecars of canary {canary}, which replaces this SidecarSet", ""
        )
    if view.name in listed:
        return Reason(
            Code.NOT_INJECTED,
            "its annotations list this SidecarSet, but containers of the SidecarSet are missing",
            _RECREATE,
        )
    unreviewed = find_unreviewed(
        selected.pod.namespace, selected.namespace_labels, own_namespace=snapshot.settings.own_namespace
    )
    if unreviewed is not None:
        remedy = (
            "create the pod in another namespace"
            if unreviewed.is_by_name
            else f"remove the label {'='.join(EXCLUDED_LABEL)} from the namespace"
        )
        return Reason(
            Code.NOT_INJECTED, "API servers send no admission reviews of pods in its namespace", remedy
        )
    created_at = selected.pod.created_at
    if created_at is not None and created_at < view.created_at:
        words = "it is older than this SidecarSet, and sidecars are injected when a pod is created"
        remedy = _RESUME_AND_RECREATE if view.is_injection_paused else _RECREATE
        return Reason(Code.NOT_INJECTED, words, remedy)
    if view.is_injection_paused:
        words = "injection is paused, so it was created without sidecars"
        return Reason(Code.INJECTION_PAUSED, words, _RESUME_AND_RECREATE)
    words = (
        "it was created without its sidecars: injection was paused, the webhooks were not called, "
        "or it had other labels then"
    )
    return Reason(Code.NOT_INJECTED, words, _RECREATE)
