"""Oversight of the caches: logs once, in plain words, why a cache does not work.

Cache.read_stats() ──every few seconds──▶ Oversight ──▶ one log line per change      list_problems() ──▶ readiness

Caches retry automatically after every error. A missing CRD or a missing permission is no reason to exit. Such a
problem is not logged at each try, but when it begins, when the timeout for it has passed, and when it ends.

Objects that are stored in an older version can be listed only after an API server has called the conversion webhook. If
the program serves this webhook, the API server reaches it only through ready replicas. So a list that the API server
cannot convert must not make a replica unready: otherwise no replica would be ready after a restart of all replicas.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Never

import msgspec

from pykruise.kube.cache.cache import Cache, CacheStats
from pykruise.kube.resources import Resource

__all__ = ["Oversight"]

_log = logging.getLogger(__name__)

EVERY_S = 5.0
DEAD_WATCH_S = 300.0
"""Seconds for which a watch may be disconnected while others are connected. After this time the program is not
ready.
"""

State = Literal["fine", "filling", "missing", "forbidden", "down"]


class _Seen(msgspec.Struct):
    state: State
    since: float
    is_reported: bool = False
    """Whether the problem was logged after the timeout had passed."""


class Oversight:
    """Oversees `caches` while `run()` runs.

    `shared`: resources that every controller reads. A missing permission for another resource affects only the
    controllers that read it. These controllers wait, but the program is still ready. `converted`: API groups whose
    objects this program converts. `install_crds`, `grant`: what a person does when a CRD or a permission is missing.
    """

    def __init__(
        self,
        caches: Mapping[Resource, Cache[Any]],
        *,
        shared: Collection[Resource],
        timeout_s: float,
        converted: Collection[str] = (),
        install_crds: str = "install it",
        grant: str = "add it to the role of this program's ServiceAccount",
    ) -> None:
        self._caches = caches
        self._shared = shared
        self._timeout_s = timeout_s
        self._converted = converted
        self._install_crds = install_crds
        self._grant = grant
        self._seen: dict[Resource, _Seen] = {}

    async def run(self) -> Never:
        """Check the caches regularly until cancelled; never returns."""
        while True:
            self._check_caches(asyncio.get_running_loop().time())
            await asyncio.sleep(EVERY_S)

    def list_problems(self) -> Sequence[str]:
        """Problems that prevent the program's work. A kind that is not installed is not such a problem."""
        problems: list[str] = []
        now = asyncio.get_running_loop().time()
        is_connected = any(cache.is_connected for cache in self._caches.values())
        for resource, cache in self._caches.items():
            stats = cache.read_stats()
            state = _choose_state(stats)
            seen = self._seen.get(resource)
            is_convertible = resource.group not in self._converted or not stats.may_lack_conversion
            if state == "filling" or (not stats.synced and state == "down" and is_convertible):
                problems.append(
                    f"the cache of {resource} is not filled yet:"
                    f" {stats.last_error or 'the first list has not finished'}"
                )
            elif state == "forbidden" and not stats.synced and resource in self._shared:
                problems.append(self._describe_forbidden(resource))
            elif state == "down" and is_connected and seen and now - seen.since >= DEAD_WATCH_S:
                problems.append(f"the watch of {resource} has been down for {now - seen.since:.0f} s")
        return problems

    def _check_caches(self, now: float) -> None:
        for resource, cache in self._caches.items():
            seen = self._seen.get(resource)
            if seen is not None and seen.state == "fine" and cache.synced and cache.is_connected:
                continue  # nothing has changed, and full stats would cost more than everything else in this loop
            stats = cache.read_stats()
            state = _choose_state(stats)
            if seen is None or seen.state != state:
                self._log_change(resource, stats, state, before=seen.state if seen else None)
                seen = self._seen[resource] = _Seen(state, now)
            is_late = not stats.synced and state != "missing" and now - seen.since >= self._timeout_s
            if is_late and not seen.is_reported:
                seen.is_reported = True
                _log.error(
                    "the cache of %s could not be filled within %g s (%s); the program keeps trying",
                    resource,
                    self._timeout_s,
                    stats.last_error or "no response",
                )

    def _log_change(
        self, resource: Resource, stats: CacheStats, state: State, *, before: State | None
    ) -> None:
        match state:
            case "missing":
                _log.warning(
                    "the cluster does not serve %s (%s): the controllers that read this kind start when the CRD"
                    " exists; %s",
                    resource.kind,
                    resource,
                    self._install_crds,
                )
            case "forbidden":
                _log.error("%s", self._describe_forbidden(resource))
            case "fine" if before in ("missing", "forbidden"):
                _log.info("%s can be read now", resource)
            case _:
                pass  # the caches log other states themselves

    def _describe_forbidden(self, resource: Resource) -> str:
        return f"this program cannot list and watch {resource}: its role lacks the permission; {self._grant}"


def _choose_state(stats: CacheStats) -> State:
    if stats.connected or not stats.last_error:
        return "fine" if stats.synced else "filling"
    match stats.last_code:
        case 404:
            return "missing"
        case 403:
            return "forbidden"
        case _:
            return "down"
