"""The Kubernetes release of a cluster: its minor, and the features that affect pods.

    /version of an API server ──▶ minor_of() ──▶ release_of(minor) ──▶ Release, used by decoders, defaults and rules

kube/data/gates.json records the minor in which each feature gate was added and the one in which it is on by default.
A gate that is not in the file is on in every known minor. Pure.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.package_data import read_package_data

__all__ = [
    "MINORS",
    "NEWEST",
    "NEWEST_MINOR",
    "Release",
    "is_known",
    "is_newer_than_known",
    "minor_of",
    "number_of",
    "release_of",
]

MINORS: Final = ("1.28", "1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
"""All known minor versions, such as `1.37`, oldest first."""
NEWEST_MINOR: Final = MINORS[-1]
"""The newest known minor version."""
_VERSION: Final = re.compile(r"v?([0-9]+)[^.]*\.([0-9]+)")


class Release(msgspec.Struct, frozen=True):
    """A minor with the features of its API server: those that are on by default, or all that can be enabled."""

    minor: str
    """`1.37`: one of MINORS."""
    off: frozenset[str]
    """Feature gates that affect pods and are off."""

    def has(self, gate: str) -> bool:
        """Whether the feature gate is on."""
        return gate not in self.off

    def is_at_least(self, minor: str) -> bool:
        """Whether the release is this minor or a later one."""
        return number_of(self.minor) >= number_of(minor)


@cache
def release_of(minor: str, *, possible: bool = False) -> Release:
    """Return the release of a minor. `possible`: enable all its feature gates, even those that are off by default,
    because an administrator may have enabled them. Raises ValueError for a minor that is not in MINORS.
    """
    if minor not in MINORS:
        raise ValueError(f"Kubernetes {minor} is not known: there are {', '.join(MINORS)}")
    stage = "since" if possible else "on"
    off = {
        gate
        for gate, stages in _read_gates().items()
        if stage not in stages or number_of(stages[stage]) > number_of(minor)
    }
    return Release(minor, frozenset(off))


def minor_of(version: Mapping[str, Any] | str) -> str:
    """Return the minor in MINORS that is nearest to a version: that of an API server (/version), or its gitVersion.

    Vendors append text to any part (`v1.32+gke.1`). An invalid version counts as the newest minor, which has the most
    features.
    """
    number = _parse_number(version)
    if number is None:
        return NEWEST_MINOR
    return next((minor for minor in reversed(MINORS) if number_of(minor) <= number), MINORS[0])


def is_known(version: Mapping[str, Any] | str) -> bool:
    """Whether the version's minor is one of MINORS."""
    number = _parse_number(version)
    return number is not None and f"{number[0]}.{number[1]}" in MINORS


def is_newer_than_known(version: Mapping[str, Any] | str) -> bool:
    """Whether the version's minor is newer than all known ones."""
    number = _parse_number(version)
    return number is not None and number > number_of(NEWEST_MINOR)


def number_of(minor: str) -> tuple[int, int]:
    """Return a minor as numbers, which can be compared. Raises ValueError for an invalid one."""
    major, _, number = minor.partition(".")
    return int(major), int(number)


def _parse_number(version: Mapping[str, Any] | str) -> tuple[int, int] | None:
    text = version if isinstance(version, str) else str(version.get("gitVersion") or "")
    match = _VERSION.match(text)
    return None if match is None else (int(match[1]), int(match[2]))


@cache
def _read_gates() -> Mapping[str, Mapping[str, str]]:
    gates: Mapping[str, Mapping[str, str]] = orjson.loads(read_package_data("pykruise.kube", "gates.json"))
    return gates


NEWEST: Final = release_of(NEWEST_MINOR, possible=True)
"""The newest minor, with every possible feature."""
