"""What the sandbox's API server says that it is; commands that meet it know it by this.

Pure.
"""

from collections.abc import Mapping
from typing import Final

VERSION: Final[Mapping[str, str]] = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.0-pykruise",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
"""What /version says: the Kubernetes whose behaviour this server has."""
