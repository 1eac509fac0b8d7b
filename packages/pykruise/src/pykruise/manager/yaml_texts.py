"""Manifests as YAML, written by libyaml if PyYAML includes it: Python code takes a third of a second for the CRDs
alone.

documents ──▶ format_yaml_stream() ──▶ text for `kubectl apply -f -`, a chart, a file
"""

from collections.abc import Iterable
from typing import Any

import yaml

from pykruise.kube.documents import Document


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes YAML without anchors, because anchors are hard to read for people."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def format_yaml(value: Any) -> str:
    """Return one value as YAML, with a mapping's keys in their order."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120)
    return text


def format_yaml_stream(documents: Iterable[Document]) -> str:
    """Return all documents, each after a line `---`."""
    return "".join(f"---\n{format_yaml(document)}" for document in documents)
