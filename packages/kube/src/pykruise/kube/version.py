"""The version of all distributions of this repository, which are released together, and where its images are.

A release is made of a copy of the sources in which both values are set (tools/release).
"""

from typing import Final

__all__ = ["REGISTRY", "SANDBOX_BUILD", "__version__"]

__version__ = "0.1.0"

REGISTRY: Final = ""
"""The registry and path that this version's images are published under, such as `registry.example.com/team`; empty: no
image of this version is published."""

SANDBOX_BUILD: Final = "pykruise"
"""How the version of a sandbox's API server ends; commands that meet one know it by this."""
