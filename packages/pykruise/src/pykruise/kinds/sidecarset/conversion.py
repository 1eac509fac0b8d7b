"""Conversion of SidecarSets between v1alpha1 and v1beta1.

In v1alpha1 the custom version is a label, and one namespace can be given by name instead of a label selector. In
v1beta1 a name becomes a selector, and an annotation makes v1alpha1 show the name as it was written. Otherwise
`kubectl apply` of an unchanged manifest would change the object each time.
"""

from typing import Final

from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.admission import NAMESPACE_NAME_LABEL
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import Conversion, annotate, find_section

CUSTOM_VERSION: Final = "apps.kruise.io/sidecarset-custom-version"
"""Label of a v1alpha1 SidecarSet. Its v1beta1 form is the field `customVersion`."""
WRITTEN_NAMESPACE: Final = "pykruise.io/written-namespace"
"""Annotation of a v1beta1 SidecarSet whose namespace was given by name."""


def to_hub(doc: Document) -> Document:
    """Convert v1alpha1 to v1beta1."""
    spec = find_section(doc, "spec")
    if spec is None:
        return doc
    annotate(doc, WRITTEN_NAMESPACE, "true" if _select_namespace(spec) else None)
    version = (find_section(doc, "metadata", "labels") or {}).get(CUSTOM_VERSION)
    if isinstance(version, str):
        spec["customVersion"] = version
        annotate(doc, CUSTOM_VERSION, None, part="labels")
    return doc


def to_spoke(doc: Document) -> Document:
    """Convert v1beta1 to v1alpha1. The field `customVersion` always sets the label."""
    spec = find_section(doc, "spec")
    if spec is not None:
        if (find_section(doc, "metadata", "annotations") or {}).get(WRITTEN_NAMESPACE) == "true":
            _name_namespace(spec)
        version = spec.get("customVersion")
        if version is None or isinstance(version, str):
            spec.pop("customVersion", None)
            annotate(doc, CUSTOM_VERSION, version or None, part="labels")
    annotate(doc, WRITTEN_NAMESPACE, None)
    return doc


def _select_namespace(spec: Document) -> bool:
    """Convert the name of a namespace to a selector. Returns whether the document had a name."""
    name = spec.get("namespace")
    if name is not None and not isinstance(name, str):
        return False
    spec.pop("namespace", None)
    if name:
        spec["namespaceSelector"] = {"matchLabels": {NAMESPACE_NAME_LABEL: name}}
    return bool(name)


def _name_namespace(spec: Document) -> None:
    """Convert a selector that was created from a name to this name. If a client has changed the selector in the
    meantime, the selector is kept.
    """
    selector = spec.get("namespaceSelector")
    labels = selector.get("matchLabels") if isinstance(selector, dict) and len(selector) == 1 else None
    name = labels.get(NAMESPACE_NAME_LABEL) if isinstance(labels, dict) and len(labels) == 1 else None
    if name and isinstance(name, str):
        del spec["namespaceSelector"]
        spec["namespace"] = name


CONVERSION: Final = Conversion(SIDECAR_SETS, "v1alpha1", to_hub=to_hub, to_spoke=to_spoke)
