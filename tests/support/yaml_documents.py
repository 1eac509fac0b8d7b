"""YAML for tests: libyaml, if it is installed, is ten times as fast. All CRDs together have half a megabyte."""

from typing import Any

import yaml

__all__ = ["yaml_document", "yaml_documents"]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def yaml_documents(text: str) -> list[Any]:
    """All documents of a text; empty ones are left out."""
    return [doc for doc in yaml.load_all(text, Loader=_LOADER) if doc is not None]


def yaml_document(text: str) -> Any:
    """The only document of a text."""
    return yaml.load(text, Loader=_LOADER)
