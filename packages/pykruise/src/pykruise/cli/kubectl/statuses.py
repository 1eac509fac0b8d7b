"""Progress of a rollout or a job in one line, and whether it is done: the rules of `rollout status`.

document ──▶ status_of(document, revision=…) ──▶ RolloutStatus(line, progress); RolloutFailed: it will never be done

Pure. kinds/<kind>/shown.py has the rules of a kind. A rollout with a generation that the controller has not observed
is never done.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.kinds import shown_of
from pykruise.kube.documents import get_path
from pykruise.kube.values.go_text import quote_text
from pykruise.plans.foreign import FOREIGN
from pykruise.plans.progress import Phase, Progress
from pykruise.plans.shown import Shown
from pykruise.pods.reasons import DEADLINE_EXCEEDED

Document = Mapping[str, Any]


class RolloutFailed(KubectlError):  # noqa: N818 - says what happened
    """The rollout failed; waiting does not help."""


class RolloutStatus(msgspec.Struct, frozen=True):
    """Status line and progress of a rollout."""

    line: str
    progress: Progress

    @property
    def is_done(self) -> bool:
        """Whether the rollout is done."""
        return self.progress.is_done

    @property
    def at_partition(self) -> bool:
        """Whether all pods except those that the partition keeps are updated and ready."""
        return self.progress.is_done or self.progress.is_at_partition


def status_of(document: Document, *, revision: int = 0) -> RolloutStatus:
    """Status of a rollout. Raises RolloutFailed, and KubectlError for a kind without a rollout."""
    shown = shown_of(document)
    if shown is None or shown.progress is None:
        raise KubectlError(f"no status viewer has been implemented for {document.get('kind')}")
    _check_revision(shown, document, revision)
    _check_strategy(shown, document)
    progress = shown.progress_of(document)
    line = shown.line_of(document, progress)
    if progress.is_over and progress.phase is not Phase.COMPLETED:
        raise RolloutFailed(_format_failure(shown, document, progress, line))
    return RolloutStatus(line, progress)


def _format_failure(shown: Shown, document: Document, progress: Progress, line: str) -> str:
    if progress.phase is Phase.FAILED:
        return line
    what = f"{shown.title or shown.kind} {quote_text(document['metadata']['name'])}"
    if progress.reason == DEADLINE_EXCEEDED:
        return f"{what} exceeded its progress deadline"
    return f"{what} cannot continue: {progress.reason}: {progress.details}"


def needs_a_person(document: Document, status: RolloutStatus) -> RolloutFailed:
    """Error for an object that waits for a person, when the command does not wait."""
    shown, progress = shown_of(document), status.progress
    title = "" if shown is None else shown.title or shown.kind
    name = quote_text(document["metadata"]["name"])
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
    """Raise RolloutFailed for Kubernetes' own kinds without the strategy RollingUpdate, as kubectl does."""
    field = shown.verbs.strategy
    if shown not in FOREIGN or field is None or not field.hub.startswith("spec.updateStrategy."):
        return
    if get_path(document, "spec", "updateStrategy", "type") != "RollingUpdate":
        raise RolloutFailed("rollout status is only available for RollingUpdate strategy type")
