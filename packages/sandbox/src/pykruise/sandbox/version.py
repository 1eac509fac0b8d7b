"""Identity of the sandbox's API server, by which commands recognise it, and the minors of Kubernetes that it can be.

    "1.37" ──▶ served_release(minor) ──▶ the features that are on there
           ──▶ version_of(minor)     ──▶ the document of /version

Pure.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

from pykruise.kube.schemas.releases import Release, release_of
from pykruise.kube.version import SANDBOX_BUILD

_SWITCHED_ON: Final[Mapping[str, frozenset[str]]] = {"1.32": frozenset({"InPlacePodVerticalScaling"})}
"""Gates that are off in a minor by themselves. Those that are on in the testbed, whose answers were recorded."""


@cache
def served_release(minor: str) -> Release:
    """The release that a sandbox of this minor is. Raises ValueError for a minor that is not known."""
    release = release_of(minor)
    return Release(release.minor, release.off - _SWITCHED_ON.get(minor, frozenset()))


def version_of(minor: str) -> Mapping[str, str]:
    """Version under /version: the Kubernetes whose behaviour this server has."""
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
