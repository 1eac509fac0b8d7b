"""Claims that grow with their templates (volumeClaimUpdateStrategy OnPodRollingUpdate, if its feature gate is on).

StatefulSetWorkingSet ──▶ Growth ──▶ update.py: whether the claims of a pod are large enough, and the patches

Pure. A claim never shrinks and never changes its class or access modes. If a template requires another class or other
access modes, a person must delete the claim. Sizes are in billionths of a byte.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds.statefulset.types import ClaimUpdateType
from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.kube.clock import Instant
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.workload.claims import ClaimView, format_claim_name, read_template_name, storage_of
from pykruise.runtime.actions import patch_object
from pykruise.runtime.plan import Note, Step
from pykruise.runtime.reasons import Reason

RESIZE_PATIENCE_S: Final = 300.0
"""Seconds that a file system may take to grow while its pod runs. After this time the pod is recreated."""


class ClaimTemplate(msgspec.Struct, frozen=True):
    """Size, class and access modes of a claim template."""

    name: str
    storage_class: str | None
    access_modes: tuple[str, ...]
    requested: int
    resources: Mapping[str, Any]

    def has_shape_of(self, claim: ClaimView) -> bool:
        """Whether class and access modes are equal. A class that is not set equals any class."""
        classes = {self.storage_class, claim.storage_class} - {None}
        return len(classes) <= 1 and self.access_modes == claim.access_modes

    def is_met_by(self, claim: ClaimView) -> bool:
        """Whether the claim has the same class and access modes, and requests at least this size."""
        return self.has_shape_of(claim) and claim.requested >= self.requested

    def is_ready_in(self, claim: ClaimView) -> bool:
        """Whether the claim has the same class and access modes, and has reached its requested size."""
        return self.has_shape_of(claim) and claim.capacity >= claim.requested


def _parse_template(template: Mapping[str, Any]) -> ClaimTemplate:
    spec = template.get("spec") or {}
    resources = spec.get("resources") or {}
    return ClaimTemplate(
        name=read_template_name(template),
        storage_class=spec.get("storageClassName"),
        access_modes=tuple(spec.get("accessModes") or ()),
        requested=storage_of(resources.get("requests")),
        resources=resources,
    )


class Growth:
    """The claims of pods, compared with their templates. Missing and terminating claims are ignored."""

    def __init__(self, ws: StatefulSetWorkingSet) -> None:
        self._ws = ws
        self.templates = [_parse_template(template) for template in ws.spec.volume_claim_templates or ()]
        """Claim templates in the order of the spec."""
        strategy = ws.spec.volume_claim_update_strategy
        self.is_on = (
            ws.settings.auto_resize_claims
            and strategy is not None
            and strategy.type == ClaimUpdateType.ON_POD_ROLLING_UPDATE
        )
        """Whether existing claims follow changes of their templates."""

    def list_claims(self, ordinal: int) -> Iterator[tuple[ClaimTemplate, ClaimView]]:
        """Each claim of the pod with its template."""
        for template in self.templates:
            name = format_claim_name(template.name, owner=self._ws.name, suffix=str(ordinal))
            claim = self._ws.snapshot.claims.get(name)
            if claim is not None and not claim.is_deleting:
                yield template, claim

    def is_compatible(self, ordinal: int) -> bool:
        """Whether every claim of the pod matches its template or is larger."""
        return all(template.is_met_by(claim) for template, claim in self.list_claims(ordinal))

    def is_ready(self, ordinal: int) -> bool:
        """Whether every claim of the pod has reached its requested size."""
        return all(template.is_ready_in(claim) for template, claim in self.list_claims(ordinal))

    def is_complete(self, ordinal: int) -> bool:
        """Whether each claim of the pod has its requested size or needs a restart of the pod to grow further. Call this
        only if `is_compatible()`.
        """
        return all(
            template.is_ready_in(claim) or claim.resize_pending_since is not None
            for template, claim in self.list_claims(ordinal)
        )

    def restart_at(self, ordinal: int) -> Instant | None:
        """Instant at which the pod must be recreated so that a file system grows; None: no recreation is needed."""
        return min(
            (
                claim.resize_pending_since + RESIZE_PATIENCE_S
                for template, claim in self.list_claims(ordinal)
                if claim.resize_pending_since is not None and not template.is_ready_in(claim)
            ),
            default=None,
        )

    def is_restart_due(self, ordinal: int) -> bool:
        """Whether the pod, which has the update revision, must be recreated now so that a file system grows."""
        if not (self.is_on and self.is_compatible(ordinal) and self.is_complete(ordinal)):
            return False
        at = self.restart_at(ordinal)
        return at is not None and at <= self._ws.now

    def explain_obstacle(self, ordinal: int) -> Reason | None:
        """Reason why claims of the pod cannot follow their templates; None when they can."""
        for template, claim in self.list_claims(ordinal):
            if template.is_met_by(claim):
                continue
            if not template.has_shape_of(claim):
                return Reason(
                    Code.CLAIM_CANNOT_FOLLOW,
                    f"claim {claim.name} has another storage class or other access modes than its template",
                    "delete the claim and its pod, so that the claim is created again",
                )
            if claim.storage_class and (reason := self._explain_class(claim, claim.storage_class)):
                return reason
        return None

    def _explain_class(self, claim: ClaimView, name: str) -> Reason | None:
        storage_class = self._ws.snapshot.storage_classes.get(name)
        if storage_class is not None and storage_class.allows_expansion:
            return None
        words, allow = (
            ("does not exist", f"create StorageClass {name} with allowVolumeExpansion: true")
            if storage_class is None
            else (
                "does not set allowVolumeExpansion",
                "if the driver of the class can expand volumes, set allowVolumeExpansion of StorageClass"
                f" {name} to true (kubectl patch storageclass {name} -p '{{\"allowVolumeExpansion\":true}}')",
            )
        )
        return Reason(
            Code.CLAIM_CANNOT_FOLLOW,
            f"claim {claim.name} cannot be expanded: storage class {name} {words}",
            f"{allow}; or set spec.volumeClaimTemplates back to the size of the claim",
        )

    def plan_steps(self, ordinal: int) -> tuple[Step, ...]:
        """Patches that expand the claims of the pod."""
        return tuple(
            _expand_claim(self._ws, template, claim)
            for template, claim in self.list_claims(ordinal)
            if not template.is_met_by(claim)
        )


def _expand_claim(ws: StatefulSetWorkingSet, template: ClaimTemplate, claim: ClaimView) -> Step:
    body = {
        "metadata": {"annotations": {keys.OWNED_BY_STATEFULSET_ANNOTATION: ws.name}},
        "spec": {"resources": dict(template.resources)},
    }
    return Step(
        action=patch_object(PERSISTENT_VOLUME_CLAIMS, claim, body),
        because=f"its template {template.name} requests more",
        done=Note(reason="SuccessfulResize", message=f"expanded claim {claim.name}"),
        failed=Note(reason="FailedResize", message=f"failed to expand claim {claim.name}", warning=True),
    )
