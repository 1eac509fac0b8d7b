"""Facts about a cluster that the validation of a SidecarSet needs, and their sources.

SidecarReader (a cache, or the API server) ──▶ SidecarSetFacts       ──▶ validation.py (pure)
                                           ──▶ InjectionSurroundings ──▶ injection.py (pure)
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.pods.workload.revisions import RevisionView

WHITELIST_KEY: Final = "SidecarSet_PatchPodMetadata_WhiteList"
"""Key of the whitelist of annotations in the ConfigMap kruise-configuration."""


class SidecarSetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the cluster that matter for one SidecarSet."""

    others: Sequence[SidecarSetView] = ()
    """All SidecarSets; validation ignores the reviewed one."""
    revisions: Sequence[RevisionView] = ()
    """Revisions of the reviewed SidecarSet."""
    whitelist: str | None = None
    """Text of the whitelist; None: there is none."""
    whitelist_problem: str = ""
    """Why the whitelist cannot be read."""
    allows_any_annotation: bool = False
    """Whether the feature gate SidecarSetPatchPodMetadataDefaultsAllowed is on."""


class SidecarReader(Protocol):
    """Reads SidecarSets and related objects. All methods raise KubeError."""

    async def list_sidecar_sets(self) -> Sequence[SidecarSetView]:
        """All SidecarSets; empty when the kind is not installed."""
        ...

    async def read_namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """Labels of a namespace; None: it cannot be read."""
        ...

    async def list_revisions(self, name: str) -> Sequence[RevisionView]:
        """Stored revisions of a SidecarSet."""
        ...

    async def read_whitelist(self) -> str | None:
        """Text of the whitelist of annotations; None: there is none."""
        ...
