"""The question that the user sees before an action: the change that the action makes, and the plan of the controllers
after this change. Asking writes nothing.

command of the action ──dry run, with the user's permissions──▶ changed object ──▶ Question: diff, plan, ticket
ticket ──▶ is_asked(): an action without the ticket of its question is rejected

A ticket is valid for one user, one command and one generation of the object; the ticket of an approval is valid for one
step only. A ticket is signed, so any replica with the key accepts it.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import orjson

from pykruise.cli.errors import CommandError
from pykruise.cli.insight.forecasting import forecast_and_play
from pykruise.cli.kubectl.kinds import list_step_marks
from pykruise.cli.kubectl.revisions import list_differences
from pykruise.cli.plan import describe_forecast, plan_document
from pykruise.dashboard.actions import APPROVE, run_command
from pykruise.dashboard.verdicts import find_explained_kind
from pykruise.kinds import shown_of
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import Resource
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.insight import WorkloadInsight

NAMED_ABOVE: Final = 10
"""Number of pods above which the user must type the name of an object before changing it."""
MOST_LINES: Final = 200
MOST_WORDS: Final = 500
_WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The information that a person sees before an action."""

    command: str
    code: int
    """Exit code of the command in a dry run; not 0 if the command failed."""
    said: str
    diff: tuple[str, ...]
    """One line for each changed field: `path: old → new`."""
    plan: tuple[str, ...]
    """Lines that `pykruise plan` prints; empty if no pod would change, or if plan does not support the kind."""
    pods: int
    """Pods of the object before or after the action, whichever number is larger."""
    needs_name: bool
    ticket: str
    """Ticket that the request for the action must contain; empty if the dry run failed."""


class _DryRun(WrappedTransport):
    """Transport that sends each write as a dry run, and keeps the last response about an object."""

    def __init__(self, inner: Transport, resource: Resource) -> None:
        super().__init__(inner)
        self._plural = resource.plural
        self.answer: Document | None = None
        self.is_status = False
        """Whether the command writes the status, for example to approve a Rollout's step."""

    async def request(self, request: Request, /) -> Response:
        """See `Transport.request`."""
        if request.method not in _WRITES:
            return await self._inner.request(request)
        tried = msgspec.structs.replace(request, query={**request.query, "dryRun": "All"})
        answer = await self._inner.request(tried)
        if answer.status < 300 and f"/{self._plural}/" in request.path:
            self.answer = decode(answer.body)
            self.is_status = request.path.endswith("/status")
        return answer


async def build_question(
    client: Client,
    resource: Resource,
    document: Document,
    argv: Sequence[str],
    *,
    now: Instant,
    settings: ManagerSettings,
    ticket: str,
) -> Question:
    """Return the question about a command. `client` has the user's permissions; `document` is the current object.

    Raises CommandError, KubeError.
    """
    trial = _DryRun(client.transport, resource)
    code, said = await run_command(client.replace_transport(trial), argv)
    after = _build_changed_object(document, trial.answer)
    pods = count_pods_at_stake(document, argv)
    diff = list_differences(
        *(_select_comparable_fields(item, with_status=trial.is_status) for item in (document, after))
    )
    lines: Sequence[str] = ()
    if code == 0 and diff:
        lines = await _describe_plan(client, resource, document, after, now=now, settings=settings)
    return Question(
        command=f"kubectl kruise {' '.join(argv)}",
        code=code,
        said=said[:4_000],
        diff=tuple(line[:MOST_WORDS] for line in diff[:MOST_LINES]),
        plan=tuple(line[:MOST_WORDS] for line in lines[:MOST_LINES]),
        pods=pods,
        needs_name=pods > NAMED_ABOVE,
        ticket=ticket if code == 0 else "",
    )


def _build_changed_object(document: Document, answer: Document | None) -> Document:
    """Return the changed object: the response itself, or the document with the replicas that a Scale response has."""
    if answer is None or "spec" not in answer:
        return document
    if answer.get("kind") != "Scale":
        return answer
    return {**document, "spec": {**document["spec"], "replicas": answer["spec"].get("replicas", 0)}}


async def _describe_plan(
    client: Client,
    resource: Resource,
    before: Document,
    after: Document,
    *,
    now: Instant,
    settings: ManagerSettings,
) -> Sequence[str]:
    kind = find_explained_kind(resource)
    if kind is None:
        return ()
    meta = after["metadata"]
    namespace = meta.get("namespace", "")
    kept = ("name", "namespace", "annotations", "labels")
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": add_removals(before["spec"], after["spec"]),
    }
    try:
        if isinstance(kind.insight, WorkloadInsight):
            forecast, _ = await forecast_and_play(
                client, document, namespace=namespace, now=now, settings=settings
            )
            return describe_forecast(forecast)
        return describe_forecast(
            await plan_document(client, document, namespace=namespace, now=now, settings=settings)
        )
    except (CommandError, KubeError) as error:
        return (f"the change cannot be planned: {error}",)


def add_removals(before: Any, after: Any) -> Any:
    """Return the later value, with null for each removed field: a merge patch removes fields in this way."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    kept = {name: add_removals(before.get(name), value) for name, value in after.items()}
    return {**kept, **{name: None for name in before if name not in after}}


def _select_comparable_fields(document: Document, *, with_status: bool) -> dict[str, Any]:
    """Return the fields that a person writes, without those that the API server maintains."""
    meta = document["metadata"]
    return {
        "metadata": {name: meta.get(name) or {} for name in ("labels", "annotations")},
        "spec": document.get("spec") or {},
        "status": (document.get("status") or {}) if with_status else {},
    }


def _count_pods(document: Document) -> int:
    shown = shown_of(document)
    if shown is None or shown.progress is None:
        return 0
    progress = shown.progress_of(document)
    return max(progress.wanted, progress.ready, progress.updated)


def count_pods_at_stake(document: Document, argv: Sequence[str]) -> int:
    """Return the number of pods that the object has, or the number to which a command scales it if this is larger."""
    scaled = [word.partition("=")[2] for word in argv if word.startswith("--replicas=")]
    return max(
        [_count_pods(document), *(int(text) for text in scaled if text.isdecimal() and len(text) < 10)]
    )


def ticket_of(key: bytes, *, user: str, document: Document, argv: Sequence[str]) -> str:
    """Return the proof that the dashboard asked this user about this command and this generation of the object. A
    Rollout has the same generation in each of its steps, so the proof for an approval also contains the step.
    """
    meta = document["metadata"]
    step = list_step_marks(document) if tuple(argv[:2]) == APPROVE else []
    about = [user, meta.get("uid", ""), meta.get("generation", 0), list(argv), step]
    return hmac.new(key, orjson.dumps(about), hashlib.sha256).hexdigest()


def is_asked(ticket: Any, expected: str) -> bool:
    """Whether the ticket is the expected one."""
    return isinstance(ticket, str) and hmac.compare_digest(ticket.encode(), expected.encode())
