"""Assignment of a new pod to a subset, and release of its slot when the pod is deleted.

pod ──▶ its owners ──▶ the WorkloadSpread that targets one of them ──▶ a slot (subset_allocator.py) ──▶ inject()
pod that is deleted or evicted ──▶ its annotation ──▶ its slot is released

The decisions are pure (matching here, slots.py, ordinals.py, injection.py). A `SpreadReader` reads the facts that
they need.
"""

import logging
import random
from collections.abc import Collection, Mapping
from typing import Any

from pykruise.kinds.workloadspread.injection import inject
from pykruise.kinds.workloadspread.ordinals import find_subset_by_ordinal, numbering_of
from pykruise.kinds.workloadspread.readers import SpreadReader, read_replicas_for
from pykruise.kinds.workloadspread.subset_allocator import SubsetAllocator
from pykruise.kinds.workloadspread.targets import BUILT_IN, PathError
from pykruise.kinds.workloadspread.types import Subset
from pykruise.kinds.workloadspread.versions import DEFAULT_VERSIONED, parse_versioned_kinds, version_of
from pykruise.kinds.workloadspread.view import SpreadView
from pykruise.kube.cache.batched_updates import UnsettledError
from pykruise.kube.clock import Clock
from pykruise.kube.control.quota import Quota
from pykruise.kube.documents import Document, annotations_of, labels_of
from pykruise.kube.errors import KubeError
from pykruise.kube.values.group_kinds import GroupKind, group_kind
from pykruise.kube.values.owners import OwnerReference, controller_of
from pykruise.plans.targets import OwnerMissingError
from pykruise.pods.template.subset_placement import PlacementError
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.matched_spread import Matched, read_matched
from pykruise.pods.view.pod_view import is_active
from pykruise.pods.workload.allowed_workloads import WhiteListError

_log = logging.getLogger(__name__)


class AssignmentError(Exception):
    """The subset of a pod cannot be determined, or its slot cannot be released. The request is rejected, and the client
    must try again.
    """


class Assignment:
    """Assigns pods to subsets. `versioned`: kinds of owners whose pods are counted by version, in lower case."""

    def __init__(
        self, reader: SpreadReader, allocator: SubsetAllocator, *, versioned: Collection[str]
    ) -> None:
        self._reader = reader
        self._allocator = allocator
        self._versioned = versioned
        self._warned = ""
        """The last logged error of an unreadable white list."""

    async def place_pod(self, pod: Document, *, namespace: str) -> Document | None:
        """Return the pod placed in its subset; None: it belongs to no subset. Raises AssignmentError."""
        owner = controller_of(pod)
        if owner is None or not is_active(pod):
            return None
        try:
            view = await self._find_spread(owner, labels_of(pod), namespace)
            if view is None:
                return None
            return await self._inject_subset(pod, owner, view)
        except (UnsettledError, PlacementError, KubeError, OwnerMissingError, PathError) as error:
            raise AssignmentError(str(error)) from error

    async def release_slot(self, pod: Document, *, namespace: str) -> None:
        """Release the slot of a pod whose deletion or eviction is admitted. Raises AssignmentError."""
        text = annotations_of(pod).get(MATCHED_SPREAD_ANNOTATION)
        owner = controller_of(pod)
        if text is None or owner is None or not is_active(pod):
            return
        matched = read_matched(text)
        if matched is None or not matched.name:
            _log.warning(
                "pod %s/%s: %s cannot be read", namespace, _read_name(pod), MATCHED_SPREAD_ANNOTATION
            )
            return
        try:
            view = await self._find_by_name(namespace, matched.name)
            if view is None or view.is_plain or view.goes_by_ordinal or not matched.subset:
                return
            version = version_of(labels_of(pod), owner_kind=owner.kind, versioned=self._versioned)
            await self._allocator.release(
                view, version=version, pod_name=_read_name(pod), subset=matched.subset
            )
        except (UnsettledError, KubeError, PathError) as error:
            raise AssignmentError(str(error)) from error

    # ── choice of the WorkloadSpread ─────────────────────────────────────────

    async def _find_spread(
        self, owner: OwnerReference, labels: Mapping[str, str], namespace: str
    ) -> SpreadView | None:
        targets = [
            (view, view.target)
            for view in sorted(await self._reader.list_spreads(namespace), key=lambda spread: spread.name)
            if view.target is not None and not view.is_deleting
        ]
        known = await self._list_target_kinds({kind for _, (kind, _) in targets})
        first = group_kind(owner.api_version, owner.kind)
        if first not in known:
            return None
        chain = [owner]
        for view, target in targets:
            if await self._is_among_owners(target, chain, known, namespace) and _is_selected(view, labels):
                return view
        return None

    async def _list_target_kinds(self, targets: Collection[GroupKind]) -> Collection[GroupKind]:
        """Return the kinds that can be targets. The white list is read only when a WorkloadSpread needs it."""
        if BUILT_IN.issuperset(targets):
            return BUILT_IN
        try:
            white_list = await self._reader.read_white_list()
        except WhiteListError as error:
            # An unreadable ConfigMap must not block pods: it counts as absent, and the error is logged once.
            if str(error) != self._warned:
                _log.warning("the white list of WorkloadSpread cannot be read: %s", error)
            self._warned = str(error)
            return BUILT_IN
        self._warned = ""
        return BUILT_IN | white_list.owners

    async def _is_among_owners(
        self,
        target: tuple[GroupKind, str],
        chain: list[OwnerReference],
        known: Collection[GroupKind],
        namespace: str,
    ) -> bool:
        """Whether the target is among the owners. `chain` contains the known owners, and this function extends it."""
        for level in range(_LONGEST_CHAIN):
            here = chain[level]
            kind = group_kind(here.api_version, here.kind)
            if target == (kind, here.name):
                return True
            if kind not in known:
                return False
            if here is chain[-1]:
                above = await self._reader.read_controller(here, namespace)
                if above is None:
                    return False
                chain.append(above)
        return False

    async def _find_by_name(self, namespace: str, name: str) -> SpreadView | None:
        # Pods keep their annotation after their WorkloadSpread is deleted. The deletion of such a pod must not cause a
        # request.
        return next(
            (spread for spread in await self._reader.list_spreads(namespace) if spread.name == name), None
        )

    # ── choice of the subset ─────────────────────────────────────────────────

    async def _inject_subset(self, pod: Document, owner: OwnerReference, view: SpreadView) -> Document | None:
        if view.is_plain:
            (only,) = view.subsets
            return inject(pod, only, Matched(name=view.name, subset=only.name))
        if view.goes_by_ordinal:
            subset = await self._choose_by_ordinal(pod, view)
            return inject(pod, subset, Matched(name=view.name, subset=subset.name)) if subset else None
        version = version_of(labels_of(pod), owner_kind=owner.kind, versioned=self._versioned)
        pod_name = _read_name(pod)
        taken = await self._allocator.allocate(view, version=version, pod_name=pod_name)
        result = view.find_subset(taken.subset)
        if result is None:
            return None
        uid = taken.key if not pod_name else ""
        return inject(pod, result, Matched(name=view.name, subset=result.name, uid=uid))

    async def _choose_by_ordinal(self, pod: Mapping[str, Any], view: SpreadView) -> Subset | None:
        target = await self._reader.read_target(view)
        return find_subset_by_ordinal(
            view.subsets,
            view.status.subset_statuses or (),
            pod_name=_read_name(pod),
            numbering=numbering_of(target),
            replicas=await read_replicas_for(view.subsets, view, self._reader),
        )


class Spreading:
    """Everything that admission of pods needs from this kind: the reader, the allocator and the assignment.

    `versioned`: kinds as the flag --ws-enabled-versioned-status names them. `quota`: number of pods that may wait for
    the API server at the same time, in total and per namespace; None: unlimited.
    """

    def __init__(
        self,
        reader: SpreadReader,
        *,
        clock: Clock,
        rng: random.Random,
        versioned: Collection[str] = DEFAULT_VERSIONED,
        quota: Quota | None = None,
    ) -> None:
        self.reader = reader
        self.quota = quota
        self.allocator = SubsetAllocator(reader, clock=clock, rng=rng)
        self.assignment = Assignment(reader, self.allocator, versioned=parse_versioned_kinds(versioned))


_LONGEST_CHAIN = 10
"""Maximum length of a chain of owners; a longer chain is a cycle."""


def _is_selected(view: SpreadView, labels: Mapping[str, str]) -> bool:
    return view.selector is not None and view.selector.matches(labels)


def _read_name(pod: Mapping[str, Any]) -> str:
    """Name of the pod; empty: the API server generates the name later."""
    name: str = pod["metadata"].get("name") or ""
    return name
