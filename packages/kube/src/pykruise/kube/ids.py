"""Ids with types: what a string stands for, so that a swap is a type error.

A leaf: imports nothing of the project.
"""

from typing import NamedTuple, NewType

__all__ = ["Key"]

Namespace = NewType("Namespace", str)
"""Empty for cluster-scoped objects."""

Name = NewType("Name", str)
Uid = NewType("Uid", str)


class Key(NamedTuple):
    """Which object of a resource: `namespace/name`, or `name` when cluster-scoped."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
