"""Records of the lives of pods, in the same form for a simulated and a real kubelet.

life(stage, pod) as Life: create, steps ──watch──▶ statuses ──record_of()──▶ Record: settled states, each field's values

Records contain only what a client can rely on. For times, addresses and ids they contain only whether a value exists.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.documents import Document, decode
from pykruise.kube.resources import PODS
from support.scenario import Stage

Record = dict[str, Any]

THERE = "there"
QUIET_S = 1.5
"""A status that has not changed for so long has settled."""

_HEX = re.compile(r"[0-9a-f]{64}")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Stored(msgspec.Struct, frozen=True):
    """A stored pod."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    document: Document


def project(raw: bytes | msgspec.Raw) -> Stored:
    """A pod with its whole document."""
    doc = decode(raw)
    meta = doc["metadata"]
    return Stored(meta["namespace"], meta["name"], meta["uid"], int(meta["resourceVersion"]), doc)


class Life:
    """One pod, watched from its creation on. `settled`: its state after each step."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name
        self.settled: dict[str, Record] = {}
        self.seen: list[Record] = []
        self._is_gone = False

    async def step(self, what: str, is_done: Callable[[Record], Any]) -> None:
        """Wait until the pod has this state, and until it has settled."""
        await self.stage.until(lambda: self.seen and is_done(self.seen[-1]), what=f"{self.name}: {what}")
        count = 0
        while count != len(self.seen) or not is_done(self.seen[-1]):
            count = len(self.seen)
            await asyncio.sleep(QUIET_S)
        self.settled[what] = self.seen[-1]

    async def gone(self) -> None:
        """Wait until it is deleted."""
        await self.stage.until(lambda: self._is_gone, what=f"{self.name} is gone")

    @property
    def record(self) -> Record:
        """The whole record, as a document."""
        return {"settled": self.settled, "values": dict(_values(self.seen))}

    def on_change(self, change: Change[Stored]) -> None:
        """A change of the pod."""
        if change.key.name != self.name:
            return
        if change.new is None:
            self._is_gone = True
        elif (record := record_of(change.new.document)) not in self.seen[-1:]:
            self.seen.append(record)


@asynccontextmanager
async def life(stage: Stage, pod: Document) -> AsyncIterator[Life]:
    """The life of a pod that is created now."""
    watched = Life(stage, pod["metadata"]["name"])
    cache: Cache[Stored] = Cache(
        stage.client, PODS, project=project, namespace=stage.namespace, clock=stage.clock, rng=stage.rng
    )
    cache.subscribe(watched.on_change)
    running = asyncio.create_task(cache.run())
    try:
        await cache.wait_synced()
        await stage.create(pod, resource=PODS)
        yield watched
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def record_of(pod: Document) -> Record:
    """A pod's status in words that do not differ from run to run."""
    status = pod.get("status") or {}
    record: Record = {
        "phase": status.get("phase"),
        "conditions": {
            condition["type"]: _condition(condition) for condition in status.get("conditions") or ()
        },
        "fields": dict.fromkeys(sorted(set(status) - {"phase", "conditions"}), THERE),
        "containers": {},
    }
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for item in status.get(kind) or ():
            record["containers"][item["name"]] = _container(item)
    if pod["metadata"].get("deletionTimestamp"):
        record["isTerminating"] = True
    if "observedGeneration" in status:
        record["isObserved"] = status["observedGeneration"] == pod["metadata"]["generation"]
    return _without_ids(record, pod)


def _condition(entry: Document) -> Record:
    return {key: entry[key] for key in ("status", "reason", "message") if entry.get(key)}


def _container(entry: Document) -> Record:
    return {
        "state": _state(entry.get("state") or {}),
        "lastState": _state(entry.get("lastState") or {}),
        "ready": entry["ready"],
        "started": entry.get("started"),
        "restartCount": entry["restartCount"],
        "image": entry["image"],
        "imageID": entry["imageID"],
        "resources": entry.get("resources"),
        "allocatedResources": entry.get("allocatedResources"),
        "fields": dict.fromkeys(sorted(set(entry) - {"state", "lastState"}), THERE),
    }


def _state(state: Document) -> Record:
    return {
        kind: {key: value for key, value in result.items() if not key.endswith("At")}
        | {key: THERE for key in result if key.endswith("At")}
        for kind, result in state.items()
    }


def _without_ids(value: Any, pod: Document) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_ids(result, pod) for key, result in value.items()}
    if isinstance(value, list):
        return [_without_ids(result, pod) for result in value]
    if isinstance(value, str):
        text = value.replace(pod["metadata"]["namespace"], "<namespace>")
        return _UID.sub("<uid>", _HEX.sub("<hex>", text))
    return value


def _values(seen: list[Record]) -> Iterator[tuple[str, list[Any]]]:
    """Each field's values in the order of their first appearance: the number of appearances depends on timing."""
    paths = dict.fromkeys(path for record in seen for path in _short(record))
    for path in paths:
        values: list[Any] = []
        for record in seen:
            value = _short(record).get(path)
            if value not in values:
                values.append(value)
        yield path, values


def _short(record: Record) -> dict[str, Any]:
    """The fields that are compared from change to change: no messages, because they depend on timing."""
    short = {"phase": record["phase"], "isTerminating": record.get("isTerminating", False)}
    for kind, condition in record["conditions"].items():
        short[f"conditions.{kind}"] = " ".join(filter(None, (condition["status"], condition.get("reason"))))
    for name, container in record["containers"].items():
        short[f"{name}.ready"] = container["ready"]
        short[f"{name}.restartCount"] = container["restartCount"]
        short[f"{name}.state"] = _word(container["state"])
        short[f"{name}.lastState"] = _word(container["lastState"])
    return short


def _word(state: Record) -> str:
    return next((" ".join(filter(None, (kind, result.get("reason")))) for kind, result in state.items()), "")


def differences(recorded: Record, here: Record, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Differences of two records: the path, the recorded value, and the current value."""
    if isinstance(recorded, Mapping) and isinstance(here, Mapping):
        for key in {**recorded, **here}:
            yield from differences(recorded.get(key), here.get(key), f"{path}/{key}" if path else key)
    elif recorded != here:
        yield path, recorded, here
