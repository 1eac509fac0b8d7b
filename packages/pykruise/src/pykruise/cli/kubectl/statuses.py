"""How far a rollout or a job is, in one line, and whether it is done: the rules of `rollout status`.

document ──▶ status_of(document, revision=…) ──▶ Status(line, progress); RolloutFailed: it never will be

Pure. What a kind says of its objects is in kinds/<kind>/shown.py; a generation that was not observed is never done.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.kinds import shown_of
from pykruise.kube.documents import get_path
from pykruise.kube.values.go_text import quoted
from pykruise.plans.foreign import FOREIGN
from pykruise.plans.progress import Phase, Progress
from pykruise.plans.shown import Shown
from pykruise.pods.reasons import DEADLINE_EXCEEDED

Document = Mapping[str, Any]


class RolloutFailed(KubectlError):  # noqa: N818 - says what happened
    """It will not be done by waiting."""


class RolloutStatus(msgspec.Struct, frozen=True):
    """One line, and how far it is."""

    line: str
    progress: Progress

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to come."""
        return self.progress.is_done

    @property
    def at_partition(self) -> bool:
        """Whether all but the pods that the partition keeps are updated and ready."""
        return self.progress.is_done or self.progress.is_at_partition


def status_of(document: Document, *, revision: int = 0) -> RolloutStatus:
    """How far it is. Raises RolloutFailed, and KubectlError for a kind without a rollout."""
    shown = shown_of(document)
    if shown is None or shown.progress is None:
        raise KubectlError(f"no status viewer has been implemented for {document.get('kind')}")
    _check_revision(shown, document, revision)
    _check_strategy(shown, document)
    progress = shown.progress_of(document)
    line = shown.line_of(document, progress)
    if progress.is_over and progress.phase is not Phase.COMPLETED:
        raise RolloutFailed(_failure(shown, document, progress, line))
    return RolloutStatus(line, progress)


def _failure(shown: Shown, document: Document, progress: Progress, line: str) -> str:
    if progress.phase is Phase.FAILED:
        return line
    what = f"{shown.title or shown.kind} {quoted(document['metadata']['name'])}"
    if progress.reason == DEADLINE_EXCEEDED:
        return f"{what} exceeded its progress deadline"
    return f"{what} cannot go on: {progress.reason}: {progress.details}"


def needs_a_person(document: Document, status: RolloutStatus) -> RolloutFailed:
    """Why a command ends with 1 that does not wait for an object that waits for a person."""
    shown, progress = shown_of(document), status.progress
    title = "" if shown is None else shown.title or shown.kind
    name = quoted(document["metadata"]["name"])
    return RolloutFailed(f"{title} {name} is {progress.phase.lower()}: {progress.reason}: {progress.details}")


def _check_revision(shown: Shown, document: Document, revision: int) -> None:
    if not revision or shown.verbs.history != "replicasets":
        return
    annotations = document["metadata"].get("annotations") or {}
    running = int(annotations.get("deployment.kubernetes.io/revision", 0))
    if running != revision:
        raise RolloutFailed(
            f"desired revision ({revision}) is different from the running revision ({running})"
        )


def _check_strategy(shown: Shown, document: Document) -> None:
    """For Kubernetes' own kinds kubectl waits for one strategy only."""
    field = shown.verbs.strategy
    if shown not in FOREIGN or field is None or not field.hub.startswith("spec.updateStrategy."):
        return
    if get_path(document, "spec", "updateStrategy", "type") != "RollingUpdate":
        raise RolloutFailed("rollout status is only available for RollingUpdate strategy type")
