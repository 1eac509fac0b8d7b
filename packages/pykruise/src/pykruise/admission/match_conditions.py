"""Match conditions of the pod webhooks: they limit the pods for which API servers send reviews.

rules + stored objects  ──▶ list_due_conditions(), replace_conditions()
    ──▶ webhook_plan.py, which decides when to write them
review of a new object  ──▶ announce_selection() ──▶ ConditionRemover ──▶ no conditions, API servers had time to see it,
admitted

A pod must be reviewed for every stored object, however new that object is. So an object that changes which pods are
selected (`PodSelection.announces`) is admitted only after a write that removes all conditions from the configuration,
and after API servers had `settle_s` seconds to see the write. If the kind reviews evictions, the write changes the
validating configuration (`PodSelection.opens`). Even a configuration without conditions is written: a replica that is
about to narrow conditions then gets a conflict and waits again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from pykruise.admission.configurations import CONFIGURATIONS, drop_conditions, read_current_conditions
from pykruise.kube.admission import (
    AdmissionAnswer,
    AdmissionRequest,
    MatchCondition,
    Reviewer,
    ReviewRule,
)
from pykruise.kube.client.answers import metadata_of
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode, is_same
from pykruise.kube.errors import ConflictError, ErrorStatus, KubeError, NotFoundError
from pykruise.kube.patches import PatchType
from pykruise.kube.resources import Resource
from pykruise.kube.values.cel import Interests
from pykruise.plans.pod_steps import PodSelection, Webhook

SETTLE_S: Final = 1.0
"""Seconds that API servers get to see that they must send reviews for every pod."""

ATTEMPTS: Final = 5
"""Maximum tries after conflicts with other replicas; reviews of one replica wait for each other."""

OPENED_FOR: Final = "pykruise.io/opened-for"
"""Annotation: name and UID of the review for which conditions were last removed, so that each review changes the
object.
"""

Announce = Callable[[AdmissionRequest, Webhook], Awaitable[None]]
"""Awaited before an object that selects further pods is allowed; its second argument is the webhook that must review
these pods. If it raises KubeError, the object is rejected.
"""

Conditions = tuple[MatchCondition, ...]


def list_due_conditions(rules: Mapping[str, ReviewRule], interests: Interests) -> Mapping[str, Conditions]:
    """Return the conditions, by path, of rules that can be narrowed."""
    return {path: rule.narrowed(interests) for path, rule in rules.items() if rule.narrowed is not None}


def list_widest_conditions(rules: Mapping[str, ReviewRule]) -> Mapping[str, Conditions]:
    """Return the widest conditions, which do not depend on stored objects: API servers may have them at any time."""
    return list_due_conditions(rules, {})


def replace_conditions(
    rules: Mapping[str, ReviewRule], conditions: Mapping[str, Conditions]
) -> Mapping[str, ReviewRule]:
    """Return the rules, and give these conditions to those that can be narrowed."""
    return {
        path: msgspec.structs.replace(rule, conditions=conditions[path])
        if rule.narrowed is not None and path in conditions
        else rule
        for path, rule in rules.items()
    }


class ConditionRemover:
    """Removes conditions before an object that selects other pods is admitted."""

    def __init__(self, client: Client, *, settle_s: float = SETTLE_S) -> None:
        self._client = client
        self._settle_s = settle_s
        self._writing = {name: asyncio.Lock() for _, name in CONFIGURATIONS}
        self._without: dict[str, tuple[str, float]] = {}
        """Version and time, by configuration, at which it was last seen without conditions."""

    def note(self, live: Document) -> None:
        """Note a configuration after it was read."""
        name, version = live["metadata"]["name"], live["metadata"]["resourceVersion"]
        if any(read_current_conditions(live).values()):
            self._without.pop(name, None)
        elif name not in self._without or self._without[name][0] != version:
            self._without[name] = (version, asyncio.get_running_loop().time())

    async def remove(self, request: AdmissionRequest, webhook: Webhook) -> None:
        """Remove the conditions. When this returns, API servers send reviews for every pod. Raises KubeError."""
        resource, name = CONFIGURATIONS[webhook == "validating"]
        async with self._writing[name]:
            since = await self._removed_since(request, resource, name)
        await asyncio.sleep(since + self._settle_s - asyncio.get_running_loop().time())

    async def _removed_since(self, request: AdmissionRequest, resource: Resource, name: str) -> float:
        """Write the configuration without conditions. Returns the time since which it is known to have none."""
        attempts = 0
        while True:
            attempts += 1
            try:
                live = decode(await self._client.get(resource, "", name))
            except NotFoundError:
                return float("-inf")  # API servers send no reviews of pods at all
            version = live["metadata"]["resourceVersion"]
            annotations = {OPENED_FOR: f"{request.name} {request.uid}"}
            body: Document = {"metadata": {"resourceVersion": version, "annotations": annotations}}
            if any(read_current_conditions(live).values()):
                body["webhooks"] = drop_conditions(live)["webhooks"]
            try:
                raw = await self._client.patch(resource, "", name, body, patch_type=PatchType.MERGE)
            except ConflictError:
                if attempts == ATTEMPTS:
                    raise
                continue
            seen = self._without.get(name) if "webhooks" not in body else None
            since = seen[1] if seen is not None and seen[0] == version else asyncio.get_running_loop().time()
            self._without[name] = (metadata_of(raw).resource_version, since)
            return since


def announce_selection(reviewer: Reviewer, announce: Announce | None, selection: PodSelection) -> Reviewer:
    """Return the reviewer, which announces what it allows: a new object, or a change of selecting fields
    (`announces`).

    A dry run announces nothing.
    """
    if announce is None or selection.announces is None:
        return reviewer
    fields, opens = selection.announces, selection.opens

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        answer = await reviewer(request)
        if answer.refusal is not None or request.dry_run or not _is_other(request, fields):
            return answer
        try:
            await announce(request, opens)
        except KubeError as error:
            text = (
                "the webhook configuration could not be changed to include the pods that this object selects: "
                f"{error}; try again"
            )
            return AdmissionAnswer(
                refusal=ErrorStatus(status="Failure", message=text, reason="InternalError", code=500)
            )
        return answer

    return review


def _is_other(request: AdmissionRequest, fields: tuple[str, ...]) -> bool:
    if request.operation != "UPDATE":
        return True
    new, old = ((entry or {}).get("spec") or {} for entry in (request.object, request.old_object))
    return any(not is_same(new.get(field), old.get(field)) for field in fields)
