"""Missing ConfigMaps and Secrets of pods, with the command for each, and kubelets' messages about volumes.

Explanation ──pod, its ConfigMaps and Secrets, events FailedMount──▶ add_mounts() ──▶ the Explanation with them

This module only reads. Objects and events that the user may not read are ignored.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.cli.insight.config_needs import (
    ConfigNeed,
    format_completions,
    format_creations,
    list_environment_needs,
    list_pull_needs,
    list_volume_needs,
)
from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits
from pykruise.cli.insight.optional_reads import find_pod_key, list_pod_events, read_optional
from pykruise.cli.insight.supplied_config import find_absences
from pykruise.kube.client.client import Client
from pykruise.kube.client.object_events import last_time_of
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.excerpts import excerpt
from pykruise.kube.resources import CONFIG_MAPS, PODS, SECRETS, Resource
from pykruise.plans.insight import Absence
from pykruise.plans.progress import Phase, add_waits
from pykruise.pods.corrections import CREATE_WHAT_IS_MISSING, Correction, drop_creation, join_remedies
from pykruise.pods.mounts import MOST_NAMED
from pykruise.pods.reasons import Code

_MOUNTING: Final = frozenset({Code.STARTING, Code.NOT_MOUNTED})
"""Codes of pods whose containers are not created; volumes that cannot be mounted may be the cause."""

_RESOURCES: Final[Mapping[str, Resource]] = {resource.kind: resource for resource in (CONFIG_MAPS, SECRETS)}

MOST: Final = 10
"""Maximum number of waits for which a pod is examined."""


RETRIED_IN_S: Final = 180.0
"""Longest time between two attempts of a kubelet to mount a volume: an older message may be about a past failure."""


class _Report(msgspec.Struct, frozen=True):
    """Latest message of a kubelet about the volumes of a pod."""

    message: str
    is_recent: bool


async def add_mounts(
    client: Client, explanation: Explanation, correction: Correction, *, now: Instant
) -> Explanation:
    """Return the explanation with the objects that are missing, and with the kubelets' messages, which only events
    contain. Managers read neither these objects nor events, so only this function can show that a person must act.
    `correction`: where a user corrects the pods' template.
    """
    explanation = await _add_environment(client, explanation)
    if not any(wait.code in _MOUNTING and wait.pods for wait in explanation.waits):
        return explanation
    reports = await _read_reports(client, explanation.namespace, now)
    waits = [
        await _with_mount(client, wait, explanation.namespace, reports, correction)
        if wait.code in _MOUNTING and wait.pods and number < MOST
        else wait
        for number, wait in enumerate(explanation.waits)
    ]
    if not any(wait.code == Code.MOUNT_FAILS for wait in waits):
        return msgspec.structs.replace(explanation, waits=tuple(waits))
    phase = add_waits(explanation.phase, (Code.MOUNT_FAILS,))
    verdict = "waiting" if phase is Phase.DEGRADED else explanation.verdict
    return msgspec.structs.replace(explanation, waits=rank_waits(waits), phase=phase, verdict=verdict)


async def _add_environment(client: Client, explanation: Explanation) -> Explanation:
    """Return the explanation with the objects that containers lack: those of the environment of a container which
    cannot be created, and the pull secrets of an image.
    """
    waits = [
        await _with_environment(client, wait, explanation.namespace)
        if wait.code in (Code.CONTAINER_FAILS, Code.IMAGE_PULL) and wait.pods and number < MOST
        else wait
        for number, wait in enumerate(explanation.waits)
    ]
    return msgspec.structs.replace(explanation, waits=tuple(waits))


async def _with_environment(client: Client, wait: Wait, namespace: str) -> Wait:
    key = find_pod_key(wait.pods[0], namespace)
    pod = None if key is None else await read_optional(client, PODS, key)
    if pod is None or key is None:
        return wait
    needs = (
        list_pull_needs(pod) if wait.code == Code.IMAGE_PULL else list_environment_needs(pod, wait.container)
    )
    lacks = await _select_lacking(client, key.namespace, needs)
    if not lacks:
        return wait
    # kubelets do not report a missing pull secret
    missing = _describe_missing(lacks) if wait.code == Code.IMAGE_PULL else _describe_absences(lacks)
    words = "; ".join((wait.words, *missing))
    remedy = join_remedies(_give_what_lacks(lacks, key.namespace), drop_creation(wait.remedy))
    return msgspec.structs.replace(wait, words=words, remedy=remedy)


def _give_what_lacks(lacks: "_Lacks", namespace: str) -> str:
    """Return the instruction to create the missing objects, or to correct the object that should create them, and to
    add the missing keys.
    """
    supplied = dict.fromkeys(absence.remedy for absence in lacks.absences.values() if absence.remedy)
    missing = [
        need for need in lacks.missing if need not in lacks.absences or not lacks.absences[need].remedy
    ]
    created = format_creations(missing, namespace) if missing else ""
    completed = format_completions(lacks.incomplete, namespace) if lacks.incomplete else ""
    return ", and ".join(filter(None, (*supplied, created, completed)))


def _describe_missing(lacks: "_Lacks") -> list[str]:
    missing = [f"there is no {need.kind} {need.name} in its namespace" for need in lacks.missing]
    return [*missing, *_describe_absences(lacks)]


def _describe_absences(lacks: "_Lacks") -> list[str]:
    return [absence.words for absence in lacks.absences.values()]


async def _read_reports(client: Client, namespace: str, now: Instant) -> Mapping[str, _Report]:
    """Return the latest report by name of the pod, in both forms of the name."""
    events = await list_pod_events(client, namespace, "FailedMount")
    return {name: report for event in events for name, report in _name_report(event, now)}


def _name_report(event: Document, now: Instant) -> Iterator[tuple[str, _Report]]:
    """Yield the report for both forms of the pod's name in explanations: without its namespace and with it."""
    pod, last = event["involvedObject"], last_time_of(event)
    is_recent = bool(last) and now - parse_time(last) <= RETRIED_IN_S
    report = _Report(excerpt(str(event.get("message") or "")), is_recent)
    yield str(pod.get("name")), report
    yield f"{pod.get('namespace')}/{pod.get('name')}", report


async def _with_mount(
    client: Client, wait: Wait, namespace: str, reports: Mapping[str, _Report], correction: Correction
) -> Wait:
    report = next((reports[pod] for pod in wait.pods if pod in reports), None)
    key = find_pod_key(wait.pods[0], namespace)
    pod = None if key is None else await read_optional(client, PODS, key)
    place = key.namespace if key is not None else namespace
    lacks = await _select_lacking(client, place, () if pod is None else list_volume_needs(pod))
    if report is None and not lacks:
        return wait
    words = [wait.words, *_describe_missing(lacks)]
    if report is not None:
        words.append(f"a volume cannot be mounted: {report.message}")
    correct = correction.describe_for("the volume")
    if lacks:
        remedy = join_remedies(_give_what_lacks(lacks, place), drop_creation(wait.remedy) or correct)
    else:
        remedy = wait.remedy or f"{CREATE_WHAT_IS_MISSING}, or {correct}"
    is_late = wait.code == Code.NOT_MOUNTED and report is not None and report.is_recent
    code = Code.MOUNT_FAILS if lacks.missing or is_late else Code.NOT_MOUNTED
    return msgspec.structs.replace(wait, code=code, words="; ".join(words), remedy=remedy)


class _Lacks(msgspec.Struct, frozen=True):
    """Objects that a pod needs and that do not exist, and existing objects that lack some of the keys."""

    missing: Sequence[ConfigNeed] = ()
    incomplete: Sequence[ConfigNeed] = ()
    absences: Mapping[ConfigNeed, Absence] = {}
    """Reasons why objects are missing, for those that another object should create."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.incomplete)


async def _select_lacking(client: Client, namespace: str, needs: Iterable[ConfigNeed]) -> _Lacks:
    """Return what is missing. Objects that the user may not read are left out."""
    missing: list[ConfigNeed] = []
    incomplete: list[ConfigNeed] = []
    for need in list(needs)[:MOST_NAMED]:
        try:
            document = decode(await client.get(_RESOURCES[need.kind], namespace, need.name))
        except NotFoundError:
            missing.append(need)
            continue
        except ApiError:
            continue
        known = {key for field in ("data", "binaryData") for key in document.get(field) or ()}
        literals, files = (
            tuple(key for key in keys if key not in known) for keys in (need.literals, need.files)
        )
        if literals or files:
            incomplete.append(msgspec.structs.replace(need, literals=literals, files=files))
    return _Lacks(missing, incomplete, await find_absences(client, namespace, missing))
