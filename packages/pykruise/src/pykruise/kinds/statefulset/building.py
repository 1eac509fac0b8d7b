"""New pods of a StatefulSet: their revision and their document.

StatefulSetWorkingSet ──▶ StatefulSetRevisionChoice ──▶ the revision of each missing pod
StatefulSetWorkingSet + slot + revision ──▶ build_pod_document()

Pure. A lost pod is created again at the revision that the partition assigns to it. The partition counts ranks, not
ordinals, so reserved ordinals and a start ordinal have no effect on it.
"""

from collections.abc import Mapping
from typing import Final

from pykruise.kinds.statefulset.claims import add_claims
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.statefulset.working_set import Slot, StatefulSetWorkingSet
from pykruise.kube.documents import Document
from pykruise.kube.resources import PODS
from pykruise.pods.lifecycle.states import LifecycleState, build_state_metadata, is_all_hooked
from pykruise.pods.template.metadata import read_pod_metadata
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.pod_groups import add_group
from pykruise.pods.workload.revisions import RevisionView

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"


class StatefulSetRevisionChoice:
    """Choice of the revision for each missing pod. Choose the revisions in ascending order of the slots: under
    unorderedUpdate, each choice affects the next choice. `creates_current`: whether new pods get the current revision,
    because the update of the pods' group has to wait.
    """

    def __init__(self, ws: StatefulSetWorkingSet, *, creates_current: bool = False) -> None:
        self._ws = ws
        self._creates_current = creates_current
        self._old = sum(not ws.counts_as_updated(pod) for pod in ws.slot_pods) if ws.spec.is_unordered else 0

    def choose_revision(self, slot: Slot) -> RevisionView:
        """Return the revision of the pod to create for this slot."""
        ws = self._ws
        block = ws.spec.rolling_update
        if ws.spec.is_on_delete:
            return ws.update
        if self._creates_current:
            return ws.current
        if block is None:
            kept = ws.slots[0].ordinal + ws.snapshot.statefulset.status.current_replicas
            return ws.current if slot.ordinal < kept else ws.update
        if block.unordered_update is None:
            return ws.current if slot.rank < ws.limits.partition else ws.update
        if self._old < ws.limits.partition:
            self._old += ws.current.hash != ws.update.hash
            return ws.current
        return ws.update


def build_identity_labels(ws: StatefulSetWorkingSet, slot: Slot) -> dict[str, str]:
    """Labels by which other controllers and clients find the pod with this ordinal."""
    labels = {POD_NAME_LABEL: slot.name}
    if ws.settings.pod_index_label:
        labels[POD_INDEX_LABEL] = str(slot.ordinal)
    return labels


def build_pod_document(
    ws: StatefulSetWorkingSet, slot: Slot, revision: RevisionView, *, group: str = ""
) -> Document:
    """Build the pod of a slot, as a member of this group. The document shares parts of the template, so callers must
    not change it.
    """
    owner = ws.snapshot.statefulset
    metadata = read_pod_metadata(revision.template)
    labels: dict[str, str] = metadata.get("labels") or {}
    finalizers: list[str] = metadata.get("finalizers") or []
    state = build_state_metadata(_choose_first_state(ws, labels, finalizers), now=ws.now)
    own: Document = {
        "name": slot.name,
        "generateName": f"{owner.name}-",
        "namespace": owner.namespace,
        "labels": {
            **labels,
            **build_identity_labels(ws, slot),
            keys.REVISION_LABEL: revision.name,
            **state["labels"],
        },
        "annotations": {**(metadata.get("annotations") or {}), **state["annotations"]},
        "ownerReferences": [owner.build_reference(ADVANCED_STATEFUL_SETS)],
    }
    if finalizers:
        own["finalizers"] = finalizers
    spec: Document = {**(revision.template.get("spec") or {}), "hostname": slot.name}
    # Only serviceName decides the subdomain. The template may contain another one, or one without serviceName.
    spec.pop("subdomain", None)
    if ws.spec.service_name:
        spec["subdomain"] = ws.spec.service_name
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": own,
        "spec": add_group(add_claims(ws, spec, slot.ordinal), group),
    }


def _choose_first_state(
    ws: StatefulSetWorkingSet, labels: Mapping[str, str], finalizers: list[str]
) -> LifecycleState:
    """Return Normal, or PreparingNormal if the pod lacks labels or finalizers of the preNormal hook."""
    hook = ws.spec.hooks.pre_normal
    born = PodView(
        namespace="", name="", uid="", resource_version=0, labels=labels, finalizers=tuple(finalizers)
    )
    if hook is None or is_all_hooked(hook, born):
        return LifecycleState.NORMAL
    return LifecycleState.PREPARING_NORMAL
