"""Revisions of a SidecarSet in the cluster: store the revision of its spec, delete revisions beyond the limit.

SidecarSetSnapshot ──▶ ensure_revision()  ──▶ StoredRevision (its name, and the writes that store it)
                   ──▶ truncate_history() ──▶ the deletions

Pure.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from pykruise.kinds.sidecarset.conversion import CUSTOM_VERSION
from pykruise.kinds.sidecarset.revisions import SET_LABEL, find_revision, to_remove
from pykruise.kinds.sidecarset.snapshot import ReadableSidecarSet
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.kube.values.counts import format_count
from pykruise.plans.ownership import delete_revision
from pykruise.plans.pod_writes import stage_of
from pykruise.plans.purposes import Purpose
from pykruise.pods.view import keys
from pykruise.pods.view.names import RevisionHash, RevisionName
from pykruise.pods.workload.revisions import RevisionView, UpdateChoice, build_revision_body, choose_update
from pykruise.runtime.actions import Create, Patch
from pykruise.runtime.plan import Chain, Note, Stage, Step

DEFAULT_LIMIT: Final = 10


class StoredRevision(msgspec.Struct, frozen=True, kw_only=True):
    """The revision of the current spec."""

    revision: RevisionView
    collision_count: int
    stages: tuple[Stage, ...] = ()
    """Writes that store the revision. They must succeed before all other writes."""

    @property
    def name(self) -> str:
        """Name of the ControllerRevision."""
        return self.revision.name


def ensure_revision(snapshot: ReadableSidecarSet) -> StoredRevision:
    """Return the revision of the spec, and the writes that make it the newest stored revision."""
    sidecar_set = snapshot.sidecarset
    choice = choose_update(
        sidecar_set.candidate,
        snapshot.revisions,
        owner=sidecar_set.name,
        collision_count=sidecar_set.status.collision_count or 0,
        others=snapshot.other_revisions,
        body=lambda name, name_hash, number: _make_body(snapshot, name, name_hash, number),
        annotations={},
    )
    return StoredRevision(
        revision=choice.revision,
        collision_count=choice.collision_count,
        stages=stage_of(
            Purpose.STORE_SIDECAR_REVISION,
            (Chain(subject="", steps=(step,)) for step in _make_steps(snapshot, choice)),
        ),
    )


def _build_version_labels(snapshot: ReadableSidecarSet) -> dict[str, str]:
    spec = snapshot.sidecarset.spec
    return {CUSTOM_VERSION: spec.custom_version} if spec.custom_version else {}


def _make_body(
    snapshot: ReadableSidecarSet, name: RevisionName, name_hash: RevisionHash, number: int
) -> Document:
    sidecar_set = snapshot.sidecarset
    return build_revision_body(
        name,
        name_hash,
        number,
        namespace=snapshot.settings.namespace,
        labels={**sidecar_set.labels, SET_LABEL: sidecar_set.name, **_build_version_labels(snapshot)},
        annotations={
            **sidecar_set.annotations,
            keys.SIDECARSET_HASH_ANNOTATION: sidecar_set.hashes.full,
            keys.SIDECARSET_IMAGELESS_ANNOTATION: sidecar_set.hashes.without_image,
        },
        owner=sidecar_set.build_reference(SIDECAR_SETS),
    )


def _make_steps(snapshot: ReadableSidecarSet, choice: UpdateChoice) -> Iterator[Step]:
    """Yield at most one write. It creates the revision, or it changes a stored revision that is current again or has
    got another custom version.
    """
    revision = choice.revision
    key = Key(snapshot.settings.namespace, revision.name)
    if choice.create is not None:
        failed = Note(
            reason="FailedCreateRevision", message=f"failed to store revision {revision.name}", warning=True
        )
        action = Create(resource=CONTROLLER_REVISIONS, key=key, body=choice.create)
        yield Step(action=action, because=f"revision {revision.name} is new", failed=failed)
        return
    patch: Document = dict(choice.patch or {})
    labels = {
        label: version
        for label, version in _build_version_labels(snapshot).items()
        if revision.labels.get(label) != version
    }
    if labels:
        patch["metadata"] = {**patch.get("metadata", {}), "labels": labels}
    if patch:
        yield Step(
            action=Patch(
                resource=CONTROLLER_REVISIONS,
                key=key,
                patch_type=PatchType.MERGE,
                body=patch,
                uid=revision.uid,
                resource_version=str(revision.resource_version),
            ),
            because=f"the spec equals revision {revision.name}",
        )


def truncate_history(snapshot: ReadableSidecarSet, present: StoredRevision) -> tuple[Stage, ...]:
    """Delete the revisions beyond the limit, except revisions that a pod has or that the injection
    strategy requests.
    """
    if present.stages:
        return ()  # Old revisions are deleted only after the current revision is stored.
    spec = snapshot.sidecarset.spec
    limit = DEFAULT_LIMIT if spec.revision_history_limit is None else spec.revision_history_limit
    in_use = {present.name, *(pod.record.revision for pod in snapshot.pods if pod.record is not None)}
    if (choice := spec.revision_choice) is not None:
        wanted = find_revision(choice, snapshot.revisions, sidecarset=snapshot.sidecarset.name)
        in_use |= {wanted.name} if wanted is not None else set()
    revisions = format_count(max(limit, 1), "revision is", "revisions are")
    because = f"more than {revisions} kept, and no pod uses this revision"
    old = to_remove(snapshot.revisions, in_use=in_use, limit=limit)
    chains = (delete_revision(revision, because) for revision in old)
    return stage_of(Purpose.TRUNCATE_REVISIONS, chains, is_optional=True)
