"""Identity of the sandbox's API server, by which commands recognize it, and its possible minor versions of
Kubernetes.

    "1.37" ──▶ find_served_release(minor) ──▶ the enabled features
           ──▶ version_of(minor)          ──▶ the document of /version

Pure.
"""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Final

from pykruise.kube.schemas.releases import Release, release_of
from pykruise.kube.version import SANDBOX_BUILD

_SWITCHED_ON: Final[Mapping[str, frozenset[str]]] = {"1.32": frozenset({"InPlacePodVerticalScaling"})}
"""Feature gates that are off by default in a minor, but on in the testbed whose responses were recorded."""


@cache
def find_served_release(minor: str, gates: Collection[str] = ()) -> Release:
    """The release for a sandbox of this minor. `gates`: feature gates that are on, whatever their default. Raises
    ValueError for an unknown minor.
    """
    release = release_of(minor)
    return Release(release.minor, release.off - _SWITCHED_ON.get(minor, frozenset()) - frozenset(gates))


def version_of(minor: str) -> Mapping[str, str]:
    """The document of /version: the Kubernetes version whose behaviour this server has."""
    major, _, number = minor.partition(".")
    return {
        "major": major,
        "minor": number,
        "gitVersion": f"v{minor}.0-{SANDBOX_BUILD}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }
