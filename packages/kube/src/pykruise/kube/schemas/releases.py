"""Which Kubernetes a cluster is: its minor, and the features that decide about pods.

    /version of an API server ──▶ minor_of() ──▶ release_of(minor) ──▶ Release: decoders, defaults and rules ask it

kube/data/gates.json says since which minor a feature gate is there, and since which it is on; a gate that it does not
have is on in every minor that is known here. Pure.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.package_data import package_data

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
NEWEST_MINOR: Final = MINORS[-1]
_VERSION: Final = re.compile(r"v?([0-9]+)[^.]*\.([0-9]+)")


class Release(msgspec.Struct, frozen=True):
    """One minor with the features of its API server: those that are on by default, or all that can be switched on."""

    minor: str
    """`1.37`: one of MINORS."""
    off: frozenset[str]
    """Feature gates that decide about pods and are off."""

    def has(self, gate: str) -> bool:
        """Whether this feature gate is on."""
        return gate not in self.off

    def is_at_least(self, minor: str) -> bool:
        """Whether it is this minor or a later one."""
        return number_of(self.minor) >= number_of(minor)


@cache
def release_of(minor: str, *, possible: bool = False) -> Release:
    """The release of a minor. `possible`: with all the feature gates that it has, also those that are off by default:
    nothing is held against a field that an administrator may have switched on. Raises ValueError for one not in MINORS.
    """
    if minor not in MINORS:
        raise ValueError(f"Kubernetes {minor} is not known: there are {', '.join(MINORS)}")
    stage = "since" if possible else "on"
    off = {
        gate
        for gate, stages in _gates().items()
        if stage not in stages or number_of(stages[stage]) > number_of(minor)
    }
    return Release(minor, frozenset(off))


def minor_of(version: Mapping[str, Any] | str) -> str:
    """The minor in MINORS that is nearest to a version: that of an API server (/version), or its gitVersion.

    Vendors append to any part (`v1.32+gke.1`). What is no version is taken for the newest, which knows most.
    """
    number = _number_in(version)
    if number is None:
        return NEWEST_MINOR
    return next((minor for minor in reversed(MINORS) if number_of(minor) <= number), MINORS[0])


def is_known(version: Mapping[str, Any] | str) -> bool:
    """Whether its minor is one of MINORS."""
    number = _number_in(version)
    return number is not None and f"{number[0]}.{number[1]}" in MINORS


def is_newer_than_known(version: Mapping[str, Any] | str) -> bool:
    """Whether its minor comes after all that are known."""
    number = _number_in(version)
    return number is not None and number > number_of(NEWEST_MINOR)


def number_of(minor: str) -> tuple[int, int]:
    """A minor as numbers, by which minors can be compared. Raises ValueError for what is none."""
    major, _, number = minor.partition(".")
    return int(major), int(number)


def _number_in(version: Mapping[str, Any] | str) -> tuple[int, int] | None:
    text = version if isinstance(version, str) else str(version.get("gitVersion") or "")
    match = _VERSION.match(text)
    return None if match is None else (int(match[1]), int(match[2]))


@cache
def _gates() -> Mapping[str, Mapping[str, str]]:
    gates: Mapping[str, Mapping[str, str]] = orjson.loads(package_data("pykruise.kube", "gates.json"))
    return gates


NEWEST: Final = release_of(NEWEST_MINOR, possible=True)
"""The newest minor, with every feature that it may have."""
