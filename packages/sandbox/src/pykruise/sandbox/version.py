"""Identity of the sandbox's API server, by which commands recognise it.

Pure.
"""

from collections.abc import Mapping
from typing import Final

from pykruise.kube.version import SANDBOX_BUILD

VERSION: Final[Mapping[str, str]] = {
    "major": "1",
    "minor": "32",
    "gitVersion": f"v1.32.0-{SANDBOX_BUILD}",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
"""Version under /version: the Kubernetes whose behaviour this server has."""
