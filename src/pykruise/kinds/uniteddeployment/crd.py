"""The CustomResourceDefinition of UnitedDeployments, made from the types.

types.py, v1alpha1.py + the schemas of the embedded specs ──▶ crd()

v1beta1 is served and stored; v1alpha1 is served. A CloneSet template of v1alpha1 has the fields of a v1beta1
CloneSet, and on top of them the flat update strategy of a v1alpha1 CloneSet, which manifests from before
OpenKruise 1.9 use.
"""

from typing import Any, Final

from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS, UnitedDeployment
from pykruise.kinds.uniteddeployment.v1alpha1 import UnitedDeploymentV1Alpha1
from pykruise.kube.crds import Column, ScalePaths, Version, definition
from pykruise.kube.documents import Document
from pykruise.pods.flat_strategy import FLAT_FIELDS

__all__ = ["crd"]

_COLUMNS = (
    Column("DESIRED", "integer", ".spec.replicas"),
    Column("CURRENT", "integer", ".status.replicas"),
    Column("UPDATED", "integer", ".status.updatedReplicas"),
    Column("READY", "integer", ".status.readyReplicas"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)

_CLONE_SET: Final = "spec.template.cloneSetTemplate.spec"
_STATEFUL_SET: Final = "spec.template.advancedStatefulSetTemplate.spec"


def crd(*, clone_set_spec: Document, stateful_set_spec: Document) -> Document:
    """The definition `uniteddeployments.apps.kruise.io`; the specs are schemas of the v1beta1 workloads."""
    old = {_CLONE_SET: _with_flat_strategy(clone_set_spec), _STATEFUL_SET: stateful_set_spec}
    new = {_CLONE_SET: clone_set_spec, _STATEFUL_SET: stateful_set_spec}
    shown: dict[str, Any] = {"columns": _COLUMNS, "scale": ScalePaths()}
    versions = (
        Version(name="v1alpha1", root=UnitedDeploymentV1Alpha1, embeds=old, **shown),
        Version(name="v1beta1", root=UnitedDeployment, embeds=new, storage=True, **shown),
    )
    return definition(UNITED_DEPLOYMENTS, versions=versions, short_names=("ud",))


def _with_flat_strategy(spec: Document) -> Document:
    """The schema of a CloneSet spec whose update strategy has the settings on its own level too."""
    strategy = spec["properties"]["updateStrategy"]
    rolling = strategy["properties"]["rollingUpdate"]["properties"]
    flat = {field: rolling[field] for field in FLAT_FIELDS}
    strategy = {**strategy, "properties": {**strategy["properties"], **flat}}
    return {**spec, "properties": {**spec["properties"], "updateStrategy": strategy}}
