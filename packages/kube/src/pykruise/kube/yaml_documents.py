"""Reads YAML as API servers do: into the values that JSON has.

text ──▶ read_yaml(), read_yaml_documents() ──▶ documents

PyYAML converts texts such as `2026-01-02` to dates, which JSON cannot contain, and rejects a plain `=`, which
well-known CRDs use as an enum's value. This module reads both as texts.
"""

from collections.abc import Iterator
from typing import Any, Final

import yaml

__all__ = ["KubernetesLoader", "read_yaml", "read_yaml_documents"]

_TEXTS: Final = frozenset({"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"})


class KubernetesLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loads dates and `=` as texts. Uses libyaml if it is installed."""


KubernetesLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _TEXTS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(text: str) -> Any:
    """Return the only value of a text. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=KubernetesLoader)


def read_yaml_documents(text: str) -> Iterator[Any]:
    """Return the values of a text with `---` between them; None for an empty one. Raises yaml.YAMLError."""
    return iter(yaml.load_all(text, Loader=KubernetesLoader))
