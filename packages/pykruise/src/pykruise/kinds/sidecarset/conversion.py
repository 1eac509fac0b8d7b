"""SidecarSets between v1alpha1 and v1beta1.

In v1alpha1 the version of one's own is a label, and one namespace can be named instead of selected by its
labels. A name becomes a selector for good: it is not given back as a name.
"""

from typing import Final

from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.admission import NAMESPACE_NAME_LABEL
from pykruise.kube.conversion import Conversion, annotate, section
from pykruise.kube.documents import Document

__all__ = ["CONVERSION", "CUSTOM_VERSION"]

CUSTOM_VERSION: Final = "apps.kruise.io/sidecarset-custom-version"
"""Label of a v1alpha1 SidecarSet: the field `customVersion`."""


def to_hub(doc: Document) -> Document:
    """v1alpha1 as v1beta1."""
    spec = section(doc, "spec")
    if spec is None:
        return doc
    _select_namespace(spec)
    version = (section(doc, "metadata", "labels") or {}).get(CUSTOM_VERSION)
    if isinstance(version, str):
        spec["customVersion"] = version
        annotate(doc, CUSTOM_VERSION, None, part="labels")
    return doc


def to_spoke(doc: Document) -> Document:
    """v1beta1 as v1alpha1. The label says what the field says, whatever it said before."""
    spec = section(doc, "spec")
    if spec is not None:
        version = spec.get("customVersion")
        if version is None or isinstance(version, str):
            spec.pop("customVersion", None)
            annotate(doc, CUSTOM_VERSION, version or None, part="labels")
    return doc


def normalize(doc: Document) -> Document:
    """A named namespace as a selector."""
    spec = section(doc, "spec")
    if spec is not None:
        _select_namespace(spec)
    return doc


def _select_namespace(spec: Document) -> None:
    name = spec.get("namespace")
    if name is None or isinstance(name, str):
        spec.pop("namespace", None)
        if name:
            spec["namespaceSelector"] = {"matchLabels": {NAMESPACE_NAME_LABEL: name}}


CONVERSION: Final = Conversion(
    SIDECAR_SETS, "v1alpha1", to_hub=to_hub, to_spoke=to_spoke, normalize=normalize
)
