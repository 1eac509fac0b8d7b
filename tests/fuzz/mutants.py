"""Objects of every kind that a schema allows, but that no user wants.

examples, documents with every field (support/wrong_values.py) + seed ──▶ mutants() ──▶ objects with some values changed

Pure: the same seed gives the same objects.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds import list_kinds
from pykruise.kube.documents import get_path
from pykruise.kube.resources import Resource
from support.sources import ROOT
from support.wrong_values import Document, Path, objects, paths, with_value
from support.yaml_documents import yaml_documents

__all__ = ["Mutant", "mutants"]

ODD: Final[Sequence[Any]] = (
    *(None, True, False, 0, 1, -1, 7, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 1.5, 1e308),
    *("", " ", "x", "a#b", "#", "..", "../../x", "a/b", "a?b=c", "é☃", "\r\nHost: x", "x" * 300),
    *("100%", "-5%", "1e3", "{}", "5", "true", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"),
    *("apps.kruise.io/specified-delete", "kubernetes.io/metadata.name", "*", "* * * * *", "web", "default"),
    *([], [None], [{}], [""], {}, {"": ""}, {"x": None}, {"app": "web"}),
    {"matchLabels": {"app": "web"}},
    {"matchExpressions": [{"key": "app", "operator": "WAT"}]},
    {"metadata": {"labels": {"apps.kruise.io/specified-delete": "x"}}},
)
"""Values of every type, and texts that have a meaning in some field."""
LABELS: Final = {"app": "web"}
MOST_CHANGES: Final = 3
OTHER_TYPE: Final = 0.15
"""Share of changes to a value of another type, which a schema usually rejects."""


class Mutant(msgspec.Struct, frozen=True):
    """One object, and its wrong values."""

    resource: Resource
    document: Document
    changed: tuple[Path, ...]

    @property
    def label(self) -> str:
        """Description of the object for people."""
        return f"{self.resource.kind} {'; '.join('.'.join(map(str, path)) for path in self.changed)}"


def mutants(count: int, *, seed: int) -> Iterator[Mutant]:
    """This number of objects, about as many of each kind."""
    rng = random.Random(seed)
    bases = list(_bases())
    for number in range(count):
        resource, base = bases[number % len(bases)]
        yield _mutant(resource, base, number, rng)


def _bases() -> Iterator[tuple[Resource, Document]]:
    """The objects that are changed: each kind in turn, as users write it, and with every field."""
    stored = {whole.resource.kind: whole for whole in objects().values() if whole.is_stored}
    written: dict[str, list[Document]] = {}
    for file in sorted((ROOT / "examples").glob("**/*.yaml")):
        for document in yaml_documents(file.read_text("utf-8")):
            if document.get("kind") in stored and "kruise.io" in document["apiVersion"]:
                written.setdefault(document["kind"], []).append(document)
    for kind in list_kinds():
        if (whole := stored.get(kind.resource.kind)) is None or not kind.versions:
            continue
        for document in written.get(kind.resource.kind, [])[:2]:
            if document["apiVersion"] == whole.resource.api_version:
                yield whole.resource, document
        yield whole.resource, {**whole.document, "status": None}


def _mutant(resource: Resource, base: Document, number: int, rng: random.Random) -> Mutant:
    document = {**base, "metadata": _metadata(base, resource, number)}
    document.pop("status", None)
    changed: list[Path] = []
    for _ in range(rng.randrange(MOST_CHANGES + 1)):
        places = [("spec", *path) for path in paths(document.get("spec"))]
        if not places:
            break
        path = rng.choice(places)
        document = with_value(document, path, _odd(get_path(document, *path), rng))
        changed.append(path)
    return Mutant(resource, document, tuple(changed))


def _metadata(base: Document, resource: Resource, number: int) -> Document:
    metadata: Document = {"name": f"m{number}-{resource.kind.lower()}"[:60], "labels": LABELS}
    annotations = base["metadata"].get("annotations")
    return {**metadata, "annotations": annotations} if annotations else metadata


def _odd(value: Any, rng: random.Random) -> Any:
    """Another value, usually of the same type as the schema requires; for a list, sometimes its first item twice."""
    if rng.random() < OTHER_TYPE:
        return rng.choice(ODD)
    if isinstance(value, list) and value and rng.random() < 0.5:
        return [*value, value[0]]
    alike = [item for item in ODD if type(item) is type(value)]
    return rng.choice(alike or ODD)
