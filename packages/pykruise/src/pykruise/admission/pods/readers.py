"""Readers of the kinds that take part in pod admission, by the kind's name (Lookups.readers).

KIND.pods.reads ──▶ make_live_readers()   ──▶ reviews in the process of a sandbox
                ──▶ make_cached_readers() ──▶ the webhooks of a manager
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pykruise.admission.pods.chain import PodKind
from pykruise.plans.pod_steps import CachedReader, ReaderPlace


def make_live_readers(parts: Iterable[PodKind], place: ReaderPlace) -> Mapping[str, Any]:
    """Return readers that read from the API server each time."""
    return {kind.name: steps.reads.live(place) for kind, steps in parts if steps.reads is not None}


def make_cached_readers(parts: Iterable[PodKind], place: ReaderPlace) -> Mapping[str, CachedReader]:
    """Return readers with caches; each reader must be run."""
    return {kind.name: steps.reads.cached(place) for kind, steps in parts if steps.reads is not None}
