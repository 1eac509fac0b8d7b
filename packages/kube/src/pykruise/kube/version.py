"""The version that all distributions of this repository have, and the registry of its images.

A release is made from a copy of the sources in which both values are set (tools/release).
"""

from typing import Final

__all__ = ["REGISTRY", "SANDBOX_BUILD", "__version__"]

__version__ = "0.1.0"

REGISTRY: Final = ""
"""The registry and path under which this version's images are published, such as `registry.example.com/team`; empty:
no image of this version is published.
"""

SANDBOX_BUILD: Final = "pykruise"
"""Last part of the version of a sandbox's API server: by this part, commands recognize a sandbox."""
