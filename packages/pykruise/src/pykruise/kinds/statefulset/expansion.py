"""Claims that grow with their templates (volumeClaimUpdateStrategy OnPodRollingUpdate, behind its gate).

StatefulSetWorkingSet ──▶ Growth ──▶ update.py: is the pod's claim large enough, has it grown, which patch lets it grow

Pure. Claims never shrink, and never change their class or access modes: a person has to delete such a claim.
Sizes are in billionths of a byte.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds.statefulset.types import ClaimUpdateType
from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.kube.clock import Instant
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS
from pykruise.pods.view import keys
from pykruise.pods.workload.claims import ClaimView, claim_name, storage_of, template_name
from pykruise.runtime.actions import patch_object
from pykruise.runtime.plan import Note, Step

RESIZE_PATIENCE_S: Final = 300.0
"""How long a file system may take to grow under its running pod before the pod is recreated for it."""


class ClaimTemplate(msgspec.Struct, frozen=True):
    """Size and shape in a claim template."""

    name: str
    storage_class: str | None
    access_modes: tuple[str, ...]
    requested: int
    resources: Mapping[str, Any]

    def has_shape_of(self, claim: ClaimView) -> bool:
        """Whether class and access modes are the same; a class that is not said is any."""
        classes = {self.storage_class, claim.storage_class} - {None}
        return len(classes) <= 1 and self.access_modes == claim.access_modes

    def is_met_by(self, claim: ClaimView) -> bool:
        """Whether the claim has the shape, and asks for as much at least."""
        return self.has_shape_of(claim) and claim.requested >= self.requested

    def is_ready_in(self, claim: ClaimView) -> bool:
        """Whether the claim has the shape, and has what it asks for."""
        return self.has_shape_of(claim) and claim.capacity >= claim.requested


def _template(template: Mapping[str, Any]) -> ClaimTemplate:
    spec = template.get("spec") or {}
    resources = spec.get("resources") or {}
    return ClaimTemplate(
        name=template_name(template),
        storage_class=spec.get("storageClassName"),
        access_modes=tuple(spec.get("accessModes") or ()),
        requested=storage_of(resources.get("requests")),
        resources=resources,
    )


class Growth:
    """The claims of pods, measured against their templates. Missing and terminating claims are passed over."""

    def __init__(self, ws: StatefulSetWorkingSet) -> None:
        self._ws = ws
        self.templates = [_template(template) for template in ws.spec.volume_claim_templates or ()]
        """Claim templates in their order."""
        strategy = ws.spec.volume_claim_update_strategy
        self.is_on = (
            ws.settings.auto_resize_claims
            and strategy is not None
            and strategy.type == ClaimUpdateType.ON_POD_ROLLING_UPDATE
        )
        """Whether existing claims follow their templates at all."""

    def claims(self, ordinal: int) -> Iterator[tuple[ClaimTemplate, ClaimView]]:
        """Each claim of the pod with its template."""
        for template in self.templates:
            name = claim_name(template.name, owner=self._ws.name, suffix=str(ordinal))
            claim = self._ws.snapshot.claims.get(name)
            if claim is not None and not claim.is_deleting:
                yield template, claim

    def is_compatible(self, ordinal: int) -> bool:
        """Whether every claim of the pod is as its template says, or larger."""
        return all(template.is_met_by(claim) for template, claim in self.claims(ordinal))

    def is_ready(self, ordinal: int) -> bool:
        """Whether every claim of the pod has the size that it asks for."""
        return all(template.is_ready_in(claim) for template, claim in self.claims(ordinal))

    def is_complete(self, ordinal: int) -> bool:
        """Whether nothing more happens to the claims of the pod, which are as their templates say, while it runs."""
        return all(
            template.is_ready_in(claim) or claim.resize_pending_since is not None
            for template, claim in self.claims(ordinal)
        )

    def restart_at(self, ordinal: int) -> Instant | None:
        """When the pod has to be recreated for a file system to grow; None: it has not."""
        return min(
            (
                claim.resize_pending_since + RESIZE_PATIENCE_S
                for template, claim in self.claims(ordinal)
                if claim.resize_pending_since is not None and not template.is_ready_in(claim)
            ),
            default=None,
        )

    def why_not(self, ordinal: int) -> str:
        """Why claims of the pod cannot follow their templates; empty: they can."""
        for template, claim in self.claims(ordinal):
            if template.is_met_by(claim):
                continue
            if not template.has_shape_of(claim):
                return (
                    f"claim {claim.name} has another storage class or other access modes than its template; "
                    "delete it (and its pod) so that it is created again"
                )
            if claim.storage_class:
                storage_class = self._ws.snapshot.storage_classes.get(claim.storage_class)
                if storage_class is None or not storage_class.allows_expansion:
                    return f"claim {claim.name} cannot grow: storage class {claim.storage_class} " + (
                        "is not there" if storage_class is None else "does not set allowVolumeExpansion"
                    )
        return ""

    def steps(self, ordinal: int) -> tuple[Step, ...]:
        """The patches that let the claims of the pod grow."""
        return tuple(
            _grow(self._ws, template, claim)
            for template, claim in self.claims(ordinal)
            if not template.is_met_by(claim)
        )


def _grow(ws: StatefulSetWorkingSet, template: ClaimTemplate, claim: ClaimView) -> Step:
    body = {
        "metadata": {"annotations": {keys.OWNED_BY_STATEFULSET_ANNOTATION: ws.name}},
        "spec": {"resources": dict(template.resources)},
    }
    return Step(
        action=patch_object(PERSISTENT_VOLUME_CLAIMS, claim, body),
        because=f"its template {template.name} asks for more",
        done=Note(reason="SuccessfulResize", message=f"let claim {claim.name} grow"),
        failed=Note(reason="FailedResize", message=f"failed to let claim {claim.name} grow", warning=True),
    )
