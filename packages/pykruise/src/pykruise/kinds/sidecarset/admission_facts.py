"""Facts about a cluster for judging a SidecarSet, and their sources.

SidecarReader (a cache, or the API server) ──▶ Facts ──▶ validation.py (pure)
                                            ──▶ Surroundings ──▶ injection.py (pure)
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.pods.workload.revisions import RevisionView

WHITELIST_KEY: Final = "SidecarSet_PatchPodMetadata_WhiteList"
"""Key in the ConfigMap kruise-configuration."""


class SidecarSetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The world as far as it matters for one SidecarSet."""

    others: Sequence[SidecarSetView] = ()
    """All SidecarSets; the one that is judged does not count."""
    revisions: Sequence[RevisionView] = ()
    """Revisions of the judged SidecarSet."""
    whitelist: str | None = None
    """The text of the whitelist; None: there is none."""
    whitelist_problem: str = ""
    """Why the whitelist cannot be read."""
    allows_any_annotation: bool = False
    """Gate SidecarSetPatchPodMetadataDefaultsAllowed."""


class SidecarReader(Protocol):
    """Reads SidecarSets and what belongs to them. All methods raise KubeError."""

    async def sidecar_sets(self) -> Sequence[SidecarSetView]:
        """All of them; none where the kind is not installed."""
        ...

    async def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """The labels of a namespace; None: it cannot be read."""
        ...

    async def revisions(self, name: str) -> Sequence[RevisionView]:
        """The stored revisions of a SidecarSet."""
        ...

    async def whitelist(self) -> str | None:
        """The text of the whitelist of annotations; None: there is none."""
        ...
