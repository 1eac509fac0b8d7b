"""Typed ids, so that swapping two of them is a type error.

This module imports nothing of the project.
"""

from typing import NamedTuple, NewType

__all__ = ["Key"]

Namespace = NewType("Namespace", str)
"""Namespace of an object; empty for cluster-scoped objects."""

Name = NewType("Name", str)
Uid = NewType("Uid", str)


class Key(NamedTuple):
    """Key of an object within a resource: `namespace/name`, or `name` when cluster-scoped."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
