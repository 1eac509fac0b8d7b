"""Manifests as YAML, written by libyaml if PyYAML includes it: Python code takes a third of a second for the CRDs
alone.

documents ──▶ format_yaml_stream() ──▶ text for `kubectl apply -f -`, a chart, a file
"""

from collections.abc import Iterable
from typing import Any

import yaml

from pykruise.kube.documents import Document
from pykruise.kube.yaml_documents import KubernetesDumper


def format_yaml(value: Any) -> str:
    """Return one value as YAML, with a mapping's keys in their order."""
    text: str = yaml.dump(value, Dumper=KubernetesDumper, sort_keys=False, width=120)
    return text


def format_yaml_stream(documents: Iterable[Document]) -> str:
    """Return all documents, each after a line `---`."""
    return "".join(f"---\n{format_yaml(document)}" for document in documents)
