"""Writes of pykruise that change only fields that OpenKruise does not have: clients of OpenKruise do not expect them.

manager ──write──▶ LonelyWrites ──▶ API server
                   the object before and after it ──▶ `seen`: the changes, if no field of OpenKruise changed
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from pykruise.kinds import GROUPS
from pykruise.kinds.cloneset.selector_overlap import SELECTOR_OVERLAP
from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.kube.clock import Clock
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.kstatus import KSTATUS
from pykruise.runtime.status import OWN_CONDITIONS_S

__all__ = ["LonelyWrites"]

_URGENT: Final = {*KSTATUS, WAITING}
"""Conditions whose status and reason people act on: pykruise writes a change of these at once,
but not a change of the message alone."""
_OWN_CONDITIONS: Final = {*_URGENT, SELECTOR_OVERLAP}
_OWN_FIELDS: Final = {("status", "spread")}
"""A WorkloadSpread's memory. No other kind has a field that the original's definition lacks."""
_ALWAYS: Final = {("metadata", "resourceVersion"), ("metadata", "managedFields")}

_Path = tuple[str, ...]


class LonelyWrites(WrappedTransport):
    """Records each write of an object of OpenKruise's groups that changes only fields of pykruise, and that did not
    follow a wait of a minute."""

    def __init__(self, inner: Transport, *, prefix: str, clock: Clock) -> None:
        super().__init__(inner)
        self._prefix = prefix
        self._clock = clock
        self._written_at: dict[str, float] = {}
        self.count = 0
        """Number of writes of objects of OpenKruise's groups, lonely or not."""
        self.seen: list[str] = []

    async def request(self, request: Request, /) -> Response:
        """Read the object, send the write on, and compare."""
        is_looked_at = (
            request.method in ("PATCH", "PUT")
            and any(f"/apis/{group}/" in request.path for group in GROUPS)
            and f"/{self._prefix}" in request.path
        )
        if not is_looked_at:
            return await self._inner.request(request)
        path = request.path.removesuffix("/status")
        before = await self._inner.request(Request("GET", path))
        after = await self._inner.request(request)
        if before.status == after.status == 200:
            self._compare(path, json.loads(before.body), json.loads(after.body))
        return after

    def _compare(self, path: str, before: Any, after: Any) -> None:
        old, new = dict(_leaves(before)), dict(_leaves(after))
        changed = {leaf for leaf in old.keys() | new.keys() if old.get(leaf) != new.get(leaf)}
        changed = {leaf for leaf in changed if leaf[:2] not in _ALWAYS}
        age_s = self._clock() - self._written_at.get(path, 0.0)
        self._written_at[path] = self._clock()
        self.count += 1
        if not changed or age_s >= OWN_CONDITIONS_S - 1 or any(map(_is_urgent, changed)):
            return
        if all(map(_is_own, changed)):
            self.seen.append(f"{path}: {sorted('.'.join(leaf) for leaf in changed)}, {age_s:.0f} s later")


def _is_own(leaf: _Path) -> bool:
    is_condition = leaf[:2] == ("status", "conditions") and leaf[2:3] and leaf[2] in _OWN_CONDITIONS
    return bool(is_condition) or leaf[:2] in _OWN_FIELDS


def _is_urgent(leaf: _Path) -> bool:
    return leaf[:2] == ("status", "conditions") and leaf[2] in _URGENT and leaf[3] in ("status", "reason")


def _leaves(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, str]]:
    """Each value with its path; conditions by their type."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, (*path, name))
    elif isinstance(value, list) and path[-1:] == ("conditions",):
        for condition in value:
            yield from _leaves(condition, (*path, str(condition.get("type"))))
    else:
        yield path, msgspec.json.encode(value).decode()
