"""Readers for the steps of pod admission, by the name of their kind (Lookups.readers).

KIND.pods.reads ──▶ make_live_readers()   ──▶ reviews that run in the same process as a sandbox
                ──▶ make_cached_readers() ──▶ the webhooks of a manager
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pykruise.admission.pods.chain import PodKind
from pykruise.plans.pod_steps import CachedReader, ReaderPlace


def make_live_readers(parts: Iterable[PodKind], place: ReaderPlace) -> Mapping[str, Any]:
    """Return readers that send every read to the API server."""
    return {kind.name: steps.reads.live(place) for kind, steps in parts if steps.reads is not None}


def make_cached_readers(parts: Iterable[PodKind], place: ReaderPlace) -> Mapping[str, CachedReader]:
    """Return readers that read from caches. The caller must run each reader."""
    return {kind.name: steps.reads.cached(place) for kind, steps in parts if steps.reads is not None}
