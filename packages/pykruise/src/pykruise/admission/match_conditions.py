"""Match conditions of the pod webhooks. They limit the pods for which API servers send admission reviews.

rules + stored objects  ──▶ list_due_conditions(), replace_conditions()
    ──▶ webhook_plan.py, which decides when to write them
review of a new object  ──▶ announce_selection() ──▶ ConditionRemover ──▶ conditions are removed, and API
servers have seen this ──▶ the object is admitted

Pods that a stored object selects must be reviewed, even if the object was stored just before. So before a new object
that selects pods, or a change of its selection (`PodSelection.announces`), is admitted, all conditions are removed, and
API servers get `settle_s` seconds to see this write. The conditions are removed from the mutating webhook
configuration, or from the validating one if the kind reviews evictions (`PodSelection.opens`). The configuration is
written even if it has no conditions: if another replica is about to narrow conditions, that replica gets a conflict and
waits again.
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
"""Seconds after which every API server is expected to have seen a configuration without conditions, and to
send reviews for every pod.
"""

ATTEMPTS: Final = 5
"""Maximum number of tries if writes of other replicas cause conflicts. Within one replica, writes are sequential."""

OPENED_FOR: Final = "pykruise.io/opened-for"
"""Annotation: name and UID of the last review for which conditions were removed. Because of this value, each such write
changes the object.
"""

Announce = Callable[[AdmissionRequest, Webhook], Awaitable[None]]
"""Awaited before a new object that selects pods, or a change of its selection, is allowed. The second argument is the
webhook that must review these pods. If the function raises KubeError, the write is rejected.
"""

Conditions = tuple[MatchCondition, ...]


def list_due_conditions(rules: Mapping[str, ReviewRule], interests: Interests) -> Mapping[str, Conditions]:
    """Return the path of each rule that can have conditions, with its conditions for these selectors."""
    return {path: rule.narrowed(interests) for path, rule in rules.items() if rule.narrowed is not None}


def list_widest_conditions(rules: Mapping[str, ReviewRule]) -> Mapping[str, Conditions]:
    """Return the widest conditions. They do not depend on stored objects, so they are always correct."""
    return list_due_conditions(rules, {})


def replace_conditions(
    rules: Mapping[str, ReviewRule], conditions: Mapping[str, Conditions]
) -> Mapping[str, ReviewRule]:
    """Return the rules. Rules that can have conditions get the given conditions."""
    return {
        path: msgspec.structs.replace(rule, conditions=conditions[path])
        if rule.narrowed is not None and path in conditions
        else rule
        for path, rule in rules.items()
    }


class ConditionRemover:
    """Removes conditions before a new object that selects pods, or a change of its selection, is admitted."""

    def __init__(self, client: Client, *, settle_s: float = SETTLE_S) -> None:
        self._client = client
        self._settle_s = settle_s
        self._writing = {name: asyncio.Lock() for _, name in CONFIGURATIONS}
        self._without: dict[str, tuple[str, float]] = {}
        """Name of a configuration that was last seen without conditions → its resourceVersion, and since when this is
        known.
        """

    def note(self, live: Document) -> None:
        """Remember whether a configuration that was just read has conditions."""
        name, version = live["metadata"]["name"], live["metadata"]["resourceVersion"]
        if any(read_current_conditions(live).values()):
            self._without.pop(name, None)
        elif name not in self._without or self._without[name][0] != version:
            self._without[name] = (version, asyncio.get_running_loop().time())

    async def remove(self, request: AdmissionRequest, webhook: Webhook) -> None:
        """Remove the conditions, and wait until API servers send reviews for every pod. Raises KubeError."""
        resource, name = CONFIGURATIONS[webhook == "validating"]
        async with self._writing[name]:
            since = await self._remove_conditions(request, resource, name)
        await asyncio.sleep(since + self._settle_s - asyncio.get_running_loop().time())

    async def _remove_conditions(self, request: AdmissionRequest, resource: Resource, name: str) -> float:
        """Write the configuration without conditions. Return the time since which it is known to have no conditions."""
        attempts = 0
        while True:
            attempts += 1
            try:
                live = decode(await self._client.get(resource, "", name))
            except NotFoundError:
                return float("-inf")  # without a configuration, API servers do not send reviews of pods
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
    """Return a reviewer that awaits `announce` before it allows a new object, or a change of fields that select pods
    (`selection.announces`).

    It does not await `announce` for a dry run.
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
