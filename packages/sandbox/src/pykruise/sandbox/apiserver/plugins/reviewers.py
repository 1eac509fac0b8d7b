"""The reviewers that a write passes before it is stored.

writes.py, deletion.py ──▶ Admission.mutate() ──▶ defaults and validation ──▶ Admission.validate() ──▶ storage

Reviewers are functions of this process (kube.admission.Reviewer). webhooks/admission.py calls the webhooks that are
configured in the cluster.

Mutating reviewers run sequentially, and each sees the result of the previous one. Validating reviewers see the final
object and may only reject it.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, ReviewRule
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.errors import ErrorStatus
from pykruise.kube.resources import Resource
from pykruise.sandbox.apiserver.requests.statuses import Refusal, make_internal_error

__all__ = ["Admission", "AdmissionChain", "Concerns", "ReviewRule", "ReviewVerdict"]


class ReviewVerdict(msgspec.Struct, frozen=True):
    """The write is allowed. `object`: the object to continue with. `changed`: whether a reviewer changed it."""

    object: Document | None
    changed: bool = False
    warnings: tuple[str, ...] = ()


class Admission(Protocol):
    """Admission of writes. A denial is raised as Refusal."""

    def concerns(self, resource: Resource, subresource: str, operation: str) -> bool:
        """Whether a reviewer wants writes of this resource with this operation; if not, no request is built."""
        ...

    async def mutate(self, request: AdmissionRequest) -> ReviewVerdict:
        """Run the mutating reviewers."""
        ...

    async def validate(self, request: AdmissionRequest) -> ReviewVerdict:
        """Run the validating reviewers."""
        ...


class Concerns:
    """Remembers which kinds of writes a reviewer wants to review: `decide` is called once for each kind of write, until
    `forget` is called or the revision changes.
    """

    def __init__(self, decide: Callable[[Resource, str, str], bool]) -> None:
        self._decide = decide
        self._found: dict[tuple[Resource, str, str], bool] = {}
        self._revision = 0

    def forget(self) -> None:
        """Forget all decisions, because the inputs of `decide` have changed."""
        self._found.clear()

    def is_concerned(
        self, resource: Resource, subresource: str, operation: str, *, revision: int = 0
    ) -> bool:
        """Whether the reviewer wants writes of this resource with this operation. `revision`: the revision of the
        catalog, if `decide` depends on the catalog.
        """
        if self._revision != revision:
            self._found.clear()
            self._revision = revision
        asked = (resource, subresource, operation)
        about = self._found.get(asked)
        if about is None:
            about = self._found[asked] = self._decide(*asked)
        return about


class AdmissionChain:
    """A fixed list of reviewers."""

    def __init__(self, rules: Sequence[ReviewRule] = ()) -> None:
        self._rules = tuple(rules)
        self._concerns = Concerns(self._is_wanted)  # never forgotten: the rules do not change

    def concerns(self, resource: Resource, subresource: str, operation: str) -> bool:
        return self._concerns.is_concerned(resource, subresource, operation)

    def _is_wanted(self, resource: Resource, subresource: str, operation: str) -> bool:
        return any(rule.wants(resource, subresource, operation) for rule in self._rules)

    async def mutate(self, request: AdmissionRequest) -> ReviewVerdict:
        warnings: list[str] = []
        changed = False
        for rule in self._select_rules(request, mutating=True):
            answer = await _call_reviewer(rule, request)
            warnings += answer.warnings
            if answer.object is not None:
                changed = True
                request = msgspec.structs.replace(request, object=deep_copy(answer.object))
        return ReviewVerdict(request.object, changed, tuple(warnings))

    async def validate(self, request: AdmissionRequest) -> ReviewVerdict:
        warnings: list[str] = []
        for rule in self._select_rules(request, mutating=False):
            warnings += (await _call_reviewer(rule, request)).warnings
        return ReviewVerdict(request.object, warnings=tuple(warnings))

    def _select_rules(self, request: AdmissionRequest, *, mutating: bool) -> list[ReviewRule]:
        return [
            rule
            for rule in self._rules
            if rule.mutating is mutating
            and rule.wants(request.resource, request.subresource, request.operation)
            and rule.selects(request)
        ]


async def _call_reviewer(rule: ReviewRule, request: AdmissionRequest) -> AdmissionAnswer:
    """Call the reviewer. Its refusal or failure ends the write."""
    # A reviewer gets copies, so that its changes do not reach the storage by accident.
    own = msgspec.structs.replace(
        request, object=deep_copy(request.object), old_object=deep_copy(request.old_object)
    )
    try:
        answer = await rule.reviewer(own)
    except Refusal:
        raise
    except Exception as err:
        raise make_internal_error(f'failed calling webhook "{rule.name}": {err}') from err
    if answer.refusal is not None:
        raise Refusal(_complete_status(rule, answer.refusal))
    return answer


def _complete_status(rule: ReviewRule, status: ErrorStatus) -> ErrorStatus:
    """Build the Status that the API server sends for a webhook's denial: with the webhook's name, and with a reason
    and code when the webhook gave none.
    """
    text = status.message or status.reason
    why = f"denied the request: {text}" if text else "denied the request without explanation"
    return msgspec.structs.replace(
        status,
        status="Failure",
        message=f'admission webhook "{rule.name}" {why}',
        reason=status.reason or ("Forbidden" if status.code in (0, 403) else ""),
        code=status.code or 403,
    )
