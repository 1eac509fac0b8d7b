"""A SidecarSet as injection and upgrades see it.

bytes of a SidecarSet ──▶ project_sidecarset() ──▶ SidecarSetView (what a cache keeps)

Pure. If the spec cannot be read, the view has a `problem`: the SidecarSet injects nothing, and its controller reports
the reason.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

import msgspec

from pykruise.kinds.sidecarset.hashes import Hashes, hashes_of
from pykruise.kinds.sidecarset.revisions import candidate_of
from pykruise.kinds.sidecarset.sidecar_contents import SidecarSetContents, contents_of
from pykruise.kinds.sidecarset.types import SidecarSetSpec, SidecarSetStatus
from pykruise.kube.admission import NAMESPACE_NAME_LABEL
from pykruise.kube.documents import decode
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.schemas.types import LabelSelector
from pykruise.kube.values.cel import LabelSelection
from pykruise.kube.values.selectors import NOTHING, Selector, SelectorError, parse_selector
from pykruise.pods.template.typed_parts import Parts, fill_parts
from pykruise.pods.view import keys
from pykruise.pods.view.names import format_revision_name
from pykruise.pods.workload.revisions import Candidate, hash_revision
from pykruise.pods.workload.views import WorkloadView, make_spec_reader, read_workload_fields

CANARY: Final = "apps.kruise.io/sidecarset-canary"
CANARY_BASE: Final = "apps.kruise.io/sidecarset-base"
NOT_UPDATE: Final = "NotUpdate"

SELECTOR: Final = "spec.selector"
NAMESPACES: Final = "spec.namespaceSelector"
UPDATED: Final = "spec.updateStrategy.selector"


class SidecarSetView(WorkloadView, frozen=True, kw_only=True):
    """A SidecarSet in its cache."""

    spec: SidecarSetSpec | None
    """None: the spec cannot be read; `problem` gives the reason."""
    status: SidecarSetStatus = SidecarSetStatus()
    contents: SidecarSetContents | None = None
    selector: Selector | None = None
    """Selects pods; None: the selector cannot be read or is empty, and selects no pod."""
    namespace_selector: Selector | None = None
    """Selects namespaces; None: all namespaces."""
    update_selector: Selector | None = None
    """Selects the pods to upgrade; None: all pods."""
    named_namespaces: tuple[str, ...] = ()
    """The namespaces that the namespaceSelector names; empty: it names none."""

    @property
    def hashes(self) -> Hashes:
        """Hashes that admission recorded; computed if they were not recorded."""
        return self.contents.hashes if self.contents else Hashes()

    @property
    def base(self) -> str:
        """Name of the base SidecarSet of this canary; empty: this SidecarSet is not a canary."""
        return read_canary_base(self.annotations)

    @property
    def is_only_injected(self) -> bool:
        """Whether existing pods are not upgraded."""
        return self.spec is not None and self.spec.update_type == NOT_UPDATE

    @property
    def is_injection_paused(self) -> bool:
        """Whether new pods get no sidecars."""
        strategy = self.spec.injection_strategy if self.spec is not None else None
        return strategy is not None and strategy.paused

    @property
    def meant(self) -> LabelSelection:
        """The selected pods, in a form that can be translated to a match condition."""
        return LabelSelection(selector=self.selector or NOTHING, namespaces=self.named_namespaces)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether the selector matches a pod with these labels. The caller must check the pod's namespace."""
        return self.selector is not None and self.selector.matches(labels)

    def selects_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Whether the SidecarSet selects pods of this namespace. `labels`: those of the namespace; None if they cannot
        be read.
        """
        if self.namespace_selector is None:
            return True
        if self.named_namespaces and name not in self.named_namespaces:
            return False
        return labels is not None and self.namespace_selector.matches(labels)


class ReadableSidecarSetView(SidecarSetView, frozen=True, kw_only=True):
    """A SidecarSetView with a readable spec. Only a type: no object is created from this class."""

    spec: SidecarSetSpec
    candidate: Candidate
    contents: SidecarSetContents


def has_contents(view: SidecarSetView) -> TypeGuard[ReadableSidecarSetView]:
    """Whether the spec of the SidecarSet can be read."""
    return view.spec is not None and view.contents is not None


def read_canary_base(annotations: Mapping[str, str]) -> str:
    """The base in a canary's annotations; empty: the SidecarSet is not a canary."""
    return annotations.get(CANARY_BASE, "") if annotations.get(CANARY) == "true" else ""


_CONTAINERS: Final = "[]io.k8s.api.core.v1.Container"
PARTS: Final[Parts] = {
    "containers": _CONTAINERS,
    "initContainers": _CONTAINERS,
    "volumes": "[]io.k8s.api.core.v1.Volume",
}
read_spec: Final = make_spec_reader(SidecarSetSpec, raw=PARTS, parts=PARTS)


def project_sidecarset(raw: bytes | msgspec.Raw) -> SidecarSetView:
    """Decode a SidecarSet's JSON text (v1beta1) into its view.

    Raises ValueError only when the text is not a Kubernetes object.
    """
    document = decode(raw)
    fields = read_workload_fields(document)
    given = fill_parts(document.get("spec") or {}, PARTS)
    spec, problem = read_spec(given)
    contents: SidecarSetContents | None = None
    if spec is not None:
        contents, problem = contents_of(given, hashes=_read_hashes(fields["annotations"], given))
    status, _ = read(fields["stored_status"], SidecarSetStatus, path="status")
    status = status or SidecarSetStatus()
    candidate: Candidate | None = None
    if contents is not None:
        candidate = candidate_of(given)
        revision = _compute_revision_name(fields["name"], fields["generation"], status, candidate)
        contents = msgspec.structs.replace(contents, revision=revision)
    try:
        selectors = _parse_selectors(spec)
    except _SelectorProblemError as error:
        spec, problem, selectors = None, str(error), {}
    selector = selectors.get(SELECTOR)
    return SidecarSetView(
        **fields,
        spec=spec if contents is not None else None,
        candidate=candidate,
        contents=contents,
        problem=problem,
        status=status,
        selector=None if selector is None or selector.is_empty else selector,
        namespace_selector=selectors.get(NAMESPACES),
        update_selector=selectors.get(UPDATED),
        named_namespaces=_list_named_namespaces(spec.namespace_selector) if spec is not None else (),
    )


def _compute_revision_name(name: str, generation: int, status: SidecarSetStatus, candidate: Candidate) -> str:
    """Name of the spec's revision, which the status contains, or which the controller will create."""
    if status.latest_revision and status.observed_generation == generation:
        return status.latest_revision
    return format_revision_name(name, hash_revision(candidate.data, status.collision_count or 0))


def _read_hashes(annotations: Mapping[str, str], spec: Mapping[str, Any]) -> Hashes:
    """Return the hashes in the annotations. If admission did not record a hash, compute it."""
    full = annotations.get(keys.SIDECARSET_HASH_ANNOTATION, "")
    imageless = annotations.get(keys.SIDECARSET_IMAGELESS_ANNOTATION, "")
    if full and imageless:
        return Hashes(full, imageless)
    reckoned = hashes_of(spec)
    return Hashes(full or reckoned.full, imageless or reckoned.without_image)


class _SelectorProblemError(ValueError):
    """A selector cannot be read; the message contains its field and the reason."""


def _parse_selectors(spec: SidecarSetSpec | None) -> Mapping[str, Selector]:
    """Parse the selectors that the spec sets, by field."""
    if spec is None:
        return {}
    given = {
        SELECTOR: spec.selector,
        NAMESPACES: spec.namespace_selector,
        UPDATED: spec.update_strategy.selector if spec.update_strategy else None,
    }
    selectors: dict[str, Selector] = {}
    for field, selector in given.items():
        try:
            if selector is not None:
                selectors[field] = parse_selector(msgspec.to_builtins(selector))
        except SelectorError as error:
            raise _SelectorProblemError(f"{field}: {error}") from error
    return selectors


def _list_named_namespaces(selector: LabelSelector | None) -> tuple[str, ...]:
    """The namespaces that a namespace selector names. This is the rule of OpenKruise's index of SidecarSets."""
    if selector is None:
        return ()
    named = (selector.match_labels or {}).get(NAMESPACE_NAME_LABEL)
    if named is not None:
        return (named,)
    for expression in selector.match_expressions or ():
        if expression.key == NAMESPACE_NAME_LABEL and expression.operator == "In":
            return tuple(expression.values or ())
    return ()
