"""DaemonSets between v1alpha1 and v1beta1.

v1alpha1 ──▶ to_hub() ──▶ v1beta1 ──▶ to_spoke() ──▶ v1alpha1; kube/schemas/conversion.py keeps what one side lacks

What is called differently: that the partition limits creation is an annotation in v1alpha1, the type Surging
is Standard with maxSurge in v1beta1, and the hash in the status has another name. The annotation stays on the
v1beta1 object; in v1alpha1 it always says what the field says, so that a write through v1alpha1 does not
switch on again what was switched off. Surging comes back in v1alpha1 as it was written: else `kubectl apply`
of an unchanged manifest would change it each time.
"""

from typing import Final

from pykruise.kinds.daemonset.defaults import with_surging_replaced
from pykruise.kinds.daemonset.types import DAEMON_SETS, SURGING, RollingUpdateType
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import Conversion, annotate, rename, section

WRITTEN_AS: Final = "pykruise.io/written-as"
"""Annotation of a v1beta1 DaemonSet whose type was Surging when it was written."""

PROGRESSIVE: Final = "daemonset.kruise.io/progressive-create-pod"
"""Annotation of a v1alpha1 DaemonSet: exactly "true" is `spec.scaleStrategy.partitionedScaling`."""


def to_hub(doc: Document) -> Document:
    """v1alpha1 as v1beta1."""
    spec = section(doc, "spec")
    if spec is not None and (section(doc, "metadata", "annotations") or {}).get(PROGRESSIVE) == "true":
        scale = spec.get("scaleStrategy")
        spec["scaleStrategy"] = {**(scale if isinstance(scale, dict) else {}), "partitionedScaling": True}
    block = section(doc, "spec", "updateStrategy", "rollingUpdate")
    is_surging = block is not None and block.get("rollingUpdateType") == SURGING
    _replace_surging(doc)
    annotate(doc, WRITTEN_AS, SURGING if is_surging else None)
    rename(section(doc, "status"), "daemonSetHash", "updateRevision")
    return doc


def to_spoke(doc: Document) -> Document:
    """v1beta1 as v1alpha1."""
    spec = section(doc, "spec")
    if spec is not None:
        scale = spec.pop("scaleStrategy", None)
        is_on = isinstance(scale, dict) and scale.get("partitionedScaling") is True
        annotate(doc, PROGRESSIVE, "true" if is_on else None)
    if (section(doc, "metadata", "annotations") or {}).get(WRITTEN_AS) == SURGING:
        _bring_surging_back(section(doc, "spec", "updateStrategy", "rollingUpdate"))
    annotate(doc, WRITTEN_AS, None)
    rename(section(doc, "status"), "updateRevision", "daemonSetHash")
    return doc


def normalize(doc: Document) -> Document:
    """Without what another field says after the conversion: the annotation."""
    annotate(doc, PROGRESSIVE, None)
    return doc


def _bring_surging_back(block: Document | None) -> None:
    """Standard with a surge and nothing unavailable as Surging, without what that means by itself."""
    if block is None or block.get("rollingUpdateType") != RollingUpdateType.STANDARD:
        return
    if block.get("maxUnavailable") != 0 or block.get("maxSurge") in (None, 0, "0%"):
        return
    block["rollingUpdateType"] = SURGING
    del block["maxUnavailable"]
    if block["maxSurge"] == 1:
        del block["maxSurge"]


def _replace_surging(doc: Document) -> Document:
    block = section(doc, "spec", "updateStrategy", "rollingUpdate")
    if block is not None:
        doc["spec"]["updateStrategy"]["rollingUpdate"] = with_surging_replaced(block)
    return doc


CONVERSION: Final = Conversion(DAEMON_SETS, "v1alpha1", to_hub=to_hub, to_spoke=to_spoke, normalize=normalize)
