"""Conversion of DaemonSets between v1alpha1 and v1beta1.

v1alpha1 ──▶ to_hub() ──▶ v1beta1 ──▶ to_spoke() ──▶ v1alpha1; kube/schemas/conversion.py keeps all other fields

The versions differ in three fields. Instead of `scaleStrategy.partitionedScaling`, v1alpha1 has an annotation. v1beta1
expresses the type Surging as Standard with maxSurge. The hash in the status has another name. The annotation stays on
the v1beta1 object, but v1alpha1 always shows the value of the field: so a write in v1alpha1 does not enable the feature
after a client disabled it in v1beta1. An object that was written with Surging is converted back to Surging: otherwise
`kubectl apply` of an unchanged manifest would change the object each time.
"""

from typing import Final

from pykruise.kinds.daemonset.defaults import replace_surging
from pykruise.kinds.daemonset.types import DAEMON_SETS, SURGING, RollingUpdateType
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import Conversion, annotate, find_section, rename

WRITTEN_AS: Final = "pykruise.io/written-as"
"""Annotation of a v1beta1 DaemonSet that was written with the type Surging."""

PROGRESSIVE: Final = "daemonset.kruise.io/progressive-create-pod"
"""Annotation of a v1alpha1 DaemonSet. Only the value "true" means `spec.scaleStrategy.partitionedScaling`."""


def to_hub(doc: Document) -> Document:
    """Convert v1alpha1 to v1beta1."""
    spec = find_section(doc, "spec")
    if spec is not None and (find_section(doc, "metadata", "annotations") or {}).get(PROGRESSIVE) == "true":
        scale = spec.get("scaleStrategy")
        spec["scaleStrategy"] = {**(scale if isinstance(scale, dict) else {}), "partitionedScaling": True}
    block = find_section(doc, "spec", "updateStrategy", "rollingUpdate")
    is_surging = block is not None and block.get("rollingUpdateType") == SURGING
    _replace_surging(doc)
    annotate(doc, WRITTEN_AS, SURGING if is_surging else None)
    rename(find_section(doc, "status"), "daemonSetHash", "updateRevision")
    return doc


def to_spoke(doc: Document) -> Document:
    """Convert v1beta1 to v1alpha1."""
    spec = find_section(doc, "spec")
    if spec is not None:
        scale = spec.pop("scaleStrategy", None)
        is_on = isinstance(scale, dict) and scale.get("partitionedScaling") is True
        annotate(doc, PROGRESSIVE, "true" if is_on else None)
    if (find_section(doc, "metadata", "annotations") or {}).get(WRITTEN_AS) == SURGING:
        _restore_surging(find_section(doc, "spec", "updateStrategy", "rollingUpdate"))
    annotate(doc, WRITTEN_AS, None)
    rename(find_section(doc, "status"), "updateRevision", "daemonSetHash")
    return doc


def normalize(doc: Document) -> Document:
    """Remove the annotation PROGRESSIVE from a document that is compared with its conversion: a conversion may lose the
    annotation, because a field of v1beta1 has the same meaning.
    """
    annotate(doc, PROGRESSIVE, None)
    return doc


def _restore_surging(block: Document | None) -> None:
    """Replace Standard by Surging if maxSurge is not 0 and maxUnavailable is 0. Remove values that Surging implies."""
    if block is None or block.get("rollingUpdateType") != RollingUpdateType.STANDARD:
        return
    if block.get("maxUnavailable") != 0 or block.get("maxSurge") in (None, 0, "0%"):
        return
    block["rollingUpdateType"] = SURGING
    del block["maxUnavailable"]
    if block["maxSurge"] == 1:
        del block["maxSurge"]


def _replace_surging(doc: Document) -> Document:
    block = find_section(doc, "spec", "updateStrategy", "rollingUpdate")
    if block is not None:
        doc["spec"]["updateStrategy"]["rollingUpdate"] = replace_surging(block)
    return doc


CONVERSION: Final = Conversion(DAEMON_SETS, "v1alpha1", to_hub=to_hub, to_spoke=to_spoke, normalize=normalize)
