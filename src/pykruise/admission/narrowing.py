"""Which pods API servers ask about: those that SidecarSets and WorkloadSpreads mean; all, while these change.

what is stored ──▶ Interests ──▶ Narrowing.rules()   ──▶ conditions of the pod webhooks (upkeep.py writes them)
review of a new SidecarSet   ──▶ Narrowing.opened()  ──▶ conditions away, API servers have a moment, allowed

"All" are the pods that somebody could mean, whatever is stored: of updates, which nobody judges, it is none.

A pod must get what is stored for it, however short a time ago. So:

1. Conditions that are not exactly those of what is stored are widened to that at once.
2. They are written when the configuration has stood unchanged for `quiet_s`, all that time with the same ones due,
   and a list by the API server itself says so too.
3. A SidecarSet or WorkloadSpread that means other pods than before is allowed only after a write to the
   configuration that leaves no condition in it, and after API servers had `settle_s` to hear of it. It writes in
   any case: a replica that is about to narrow then meets a conflict, and its wait begins anew.

An API server stores what was reviewed within its request timeout (60 s unless set otherwise), which is less than
`quiet_s`; so nobody narrows between the review of an object and the time when all can see it. Only durations of
one process are measured; no clocks are compared.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from pykruise.admission.configurations import (
    MUTATING,
    MUTATING_NAME,
    told_conditions,
    without_conditions,
)
from pykruise.kube.admission import (
    AdmissionAnswer,
    AdmissionRequest,
    MatchCondition,
    Reviewer,
    ReviewRule,
)
from pykruise.kube.cel import Interests
from pykruise.kube.client import Client
from pykruise.kube.documents import Document, decode, same
from pykruise.kube.errors import ConflictError, KubeError, NotFoundError, Status
from pykruise.kube.patches import PatchType

__all__ = [
    "OPENED_FOR",
    "QUIET_S",
    "SETTLE_S",
    "Announce",
    "Narrowing",
    "announced",
    "conditions_due",
    "widest_conditions",
    "with_conditions",
]

_log = logging.getLogger(__name__)

QUIET_S: Final = 120.0
"""How long nothing changes before API servers ask about fewer pods. Above their request timeout."""

SETTLE_S: Final = 1.0
"""How long API servers have to hear that they are to ask about every pod."""

ATTEMPTS: Final = 5
"""Conflicts with other replicas; reviews of one replica wait for each other."""

OPENED_FOR: Final = "pykruise.io/opened-for"
"""Annotation: the review for which conditions were last taken away. Each one is another."""

Announce = Callable[[AdmissionRequest], Awaitable[None]]
"""Awaited before an object is allowed. Raises KubeError, and the object is refused."""

Conditions = tuple[MatchCondition, ...]


class _Wait(msgspec.Struct, frozen=True):
    """Conditions that are due for a configuration, and since when it has stood like this."""

    version: str
    due: Mapping[str, Conditions]
    since: float


class Narrowing:
    """Keeps conditions as narrow as what is stored allows.

    `known` tells from caches what is stored (None: not read yet), `read` asks the API server.
    """

    def __init__(
        self,
        client: Client,
        *,
        known: Callable[[], Interests | None],
        read: Callable[[], Awaitable[Interests]],
        quiet_s: float = QUIET_S,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._client = client
        self._known = known
        self._read = read
        self._quiet_s = quiet_s
        self._settle_s = settle_s
        self._waits: dict[str, _Wait] = {}
        self._writing = asyncio.Lock()
        self._open: tuple[str, float] | None = None
        """The version in which the mutating configuration was last seen without conditions, and since when."""

    async def rules(
        self, live: Mapping[str, Any], rules: Mapping[str, ReviewRule]
    ) -> Mapping[str, ReviewRule]:
        """The rules with the conditions that the live configuration should have now."""
        name, told = live["metadata"]["name"], told_conditions(live)
        if name == MUTATING_NAME:
            self._note(live["metadata"]["resourceVersion"], is_open=not any(told.values()))
        interests = self._known()
        if interests is None:
            # As it was left: nobody can make a SidecarSet without a review.
            return with_conditions(rules, told)
        narrowable = {path: rules[path] for path in told if path in rules}
        due, widest = conditions_due(narrowable, interests), widest_conditions(narrowable)
        if due == {path: told[path] for path in due}:
            self._waits.pop(name, None)
            return with_conditions(rules, due)
        if not self._is_time(name, live["metadata"]["resourceVersion"], due):
            if any(told[path] not in ((), conditions) for path, conditions in widest.items()):
                _log.info("%s: API servers are to ask about every pod for now", name)
            return with_conditions(rules, widest)
        if not await self._is_confirmed(narrowable, due):
            return with_conditions(rules, widest)
        _log.debug("%s: API servers are to ask only about pods that somebody means", name)
        return with_conditions(rules, due)

    def wait_s(self) -> float | None:
        """Until the next configuration can be narrowed; None: none is to be."""
        if not self._waits:
            return None
        now = asyncio.get_running_loop().time()
        return max(0.0, min(one.since for one in self._waits.values()) + self._quiet_s - now)

    async def opened(self, request: AdmissionRequest) -> None:
        """Have API servers ask about every new pod, from when this returns. Raises KubeError."""
        async with self._writing:
            since = await self._open_since(request)
        await asyncio.sleep(since + self._settle_s - asyncio.get_running_loop().time())

    async def _open_since(self, request: AdmissionRequest) -> float:
        """Writes that it is open, and returns since when it is known to be."""
        attempts = 0
        while True:
            attempts += 1
            try:
                live = decode(await self._client.get(MUTATING, "", MUTATING_NAME))
            except NotFoundError:
                return float("-inf")  # nobody is asked about pods at all
            version = live["metadata"]["resourceVersion"]
            annotations = {OPENED_FOR: f"{request.name} {request.uid}"}
            body: Document = {"metadata": {"resourceVersion": version, "annotations": annotations}}
            if any(told_conditions(live).values()):
                body["webhooks"] = without_conditions(live)["webhooks"]
            try:
                raw = await self._client.patch(MUTATING, "", MUTATING_NAME, body, patch_type=PatchType.MERGE)
            except ConflictError:
                if attempts == ATTEMPTS:
                    raise
                continue
            seen = self._open if "webhooks" not in body else None
            since = seen[1] if seen is not None and seen[0] == version else asyncio.get_running_loop().time()
            self._open = (decode(raw)["metadata"]["resourceVersion"], since)
            return since

    def _note(self, version: str, *, is_open: bool) -> None:
        if not is_open:
            self._open = None
        elif self._open is None or self._open[0] != version:
            self._open = (version, asyncio.get_running_loop().time())

    async def _is_confirmed(self, rules: Mapping[str, ReviewRule], due: Mapping[str, Conditions]) -> bool:
        """Whether the API server says so too. When it cannot say, there is nothing to be narrowed for now."""
        try:
            return conditions_due(rules, await self._read()) == due
        except KubeError as error:
            _log.debug("what SidecarSets and WorkloadSpreads mean cannot be read: %s", error)
            return False

    def _is_time(self, name: str, version: str, due: Mapping[str, Conditions]) -> bool:
        """Whether the configuration has stood long enough; the wait then begins anew, if that changes nothing."""
        now, wait = asyncio.get_running_loop().time(), self._waits.get(name)
        stands = wait is not None and (wait.version, wait.due) == (version, due)
        if wait is not None and stands and now < wait.since + self._quiet_s:
            return False
        self._waits[name] = _Wait(version, due, now)
        return stands


def conditions_due(rules: Mapping[str, ReviewRule], interests: Interests) -> Mapping[str, Conditions]:
    """The conditions of rules that can be narrowed, by path."""
    return {path: rule.narrowed(interests) for path, rule in rules.items() if rule.narrowed is not None}


def widest_conditions(rules: Mapping[str, ReviewRule]) -> Mapping[str, Conditions]:
    """The same, whatever is stored: API servers may have them at any time."""
    return conditions_due(rules, {})


def with_conditions(
    rules: Mapping[str, ReviewRule], conditions: Mapping[str, Conditions]
) -> Mapping[str, ReviewRule]:
    """The rules that can be narrowed with these conditions; the others as they are."""
    return {
        path: msgspec.structs.replace(rule, conditions=conditions[path])
        if rule.narrowed is not None and path in conditions
        else rule
        for path, rule in rules.items()
    }


def announced(reviewer: Reviewer, announce: Announce | None, *fields: str) -> Reviewer:
    """The reviewer, which announces what it allows: a new object, or one with a change in these fields of its spec.

    A dry run announces nothing.
    """
    if announce is None:
        return reviewer

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        answer = await reviewer(request)
        if answer.refusal is not None or request.dry_run or not _is_other(request, fields):
            return answer
        try:
            await announce(request)
        except KubeError as error:
            text = f"API servers cannot be told to ask about its pods: {error}; try again"
            return AdmissionAnswer(
                refusal=Status(status="Failure", message=text, reason="InternalError", code=500)
            )
        return answer

    return review


def _is_other(request: AdmissionRequest, fields: tuple[str, ...]) -> bool:
    if request.operation != "UPDATE":
        return True
    new, old = ((one or {}).get("spec") or {} for one in (request.object, request.old_object))
    return any(not same(new.get(field), old.get(field)) for field in fields)
