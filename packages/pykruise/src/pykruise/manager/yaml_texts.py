"""Manifests as YAML, written by libyaml where PyYAML has it: in Python the CRDs alone take a third of a second.

documents ──▶ yaml_stream() ──▶ text for `kubectl apply -f -`, a chart, a file
"""

from collections.abc import Iterable
from typing import Any

import yaml

from pykruise.kube.documents import Document


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """No anchors: `kubectl` reads them, people do not."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def yaml_text(value: Any) -> str:
    """One value, a mapping's keys in their order."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120)
    return text


def yaml_stream(documents: Iterable[Document]) -> str:
    """Each document after a line `---`."""
    return "".join(f"---\n{yaml_text(document)}" for document in documents)
