"""`kubectl apply` in the older version of a kind: a second apply changes nothing, and a removed field has no effect.

The test uses every field of every older version, from the schemas of the CRDs, and open fields that a conversion reads.
A client must read the values that it wrote. Otherwise each apply creates another generation, because API servers
compare objects in the version of the request.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from pykruise.kinds import list_conversions
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.schemas.conversion import convert
from pykruise.pods.workload.v1alpha1_strategy import FLAT_FIELDS
from support.wrong_values import objects

Path = tuple[str, ...]

TABLE: Final = list_conversions()
OLDER: Final = {
    whole.name: {**whole.document, "apiVersion": whole.resource.api_version}
    for whole in objects().values()
    if (of := TABLE.get((whole.resource.group, whole.resource.kind))) and whole.resource.version == of.spoke
}


WHOLE_UNITED: Final = OLDER.pop("uniteddeployments.v1alpha1")
"""A document with the fields of both dialects of the CloneSet template. A manifest uses one of them."""


def of_one_dialect(*, is_newer: bool) -> Document:
    doc = deep_copy(WHOLE_UNITED)
    spec = doc["spec"]["template"]["cloneSetTemplate"]["spec"]
    strategy, scale = spec["updateStrategy"], spec["scaleStrategy"]
    if is_newer:
        strategy["type"] = "RollingUpdate"
        others = [(strategy, field) for field in FLAT_FIELDS] + [(scale, "disablePVCReuse")]
    else:
        strategy["type"] = "InPlaceIfPossible"
        others = [(strategy, "rollingUpdate"), (scale, "enablePVCReuse"), (scale, "excludePreparingDelete")]
    for part, field in others:
        part.pop(field, None)
    return doc


def united(strategy: Document) -> Document:
    doc = deep_copy(WHOLE_UNITED)
    doc["spec"]["template"] = {"cloneSetTemplate": {"spec": {"updateStrategy": strategy}}}
    return doc


def daemonset(block: Document) -> Document:
    doc = deep_copy(OLDER["daemonsets.v1alpha1"])
    doc["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": block}
    return doc


VARIANTS: Final = {
    "uniteddeployments.v1alpha1 as released": of_one_dialect(is_newer=False),
    "uniteddeployments.v1alpha1 as v1beta1": of_one_dialect(is_newer=True),
    "flat": united({"type": "InPlaceIfPossible", "maxUnavailable": 2}),
    "flat with all": united(
        {
            "type": "InPlaceOnly",
            "partition": 1,
            "maxUnavailable": "20%",
            "maxSurge": 1,
            "paused": True,
            "inPlaceUpdateStrategy": {"gracePeriodSeconds": 3},
        }
    ),
    "flat without a type": united({"partition": 2}),
    "nested": united(
        {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate", "partition": 2}}
    ),
    "on delete": united({"type": "OnDelete"}),
    "a named namespace": {
        **OLDER["sidecarsets.v1alpha1"],
        "spec": {"containers": [{"name": "log", "image": "log:1"}], "namespace": "shop"},
    },
    "surging": daemonset({"rollingUpdateType": "Surging"}),
    "surging by one": daemonset({"rollingUpdateType": "Surging", "maxSurge": 1}),
    "surging by two": daemonset({"rollingUpdateType": "Surging", "maxSurge": 2, "partition": 1}),
    "surging, spelled out": daemonset({"rollingUpdateType": "Surging", "maxSurge": 1, "maxUnavailable": 0}),
    "standard": daemonset({"rollingUpdateType": "Standard", "maxSurge": 1, "maxUnavailable": 0}),
}
"""Documents with open fields, or with values, that a conversion reads."""

CASES: Final = {**OLDER, **VARIANTS}


def stored(doc: Document) -> Document:
    group, kind = doc["apiVersion"].partition("/")[0], doc["kind"]
    return convert(doc, f"{group}/{TABLE[group, kind].hub}", TABLE)


def read(doc: Document) -> Document:
    """The document as the client reads it after it has written it."""
    return convert(stored(doc), doc["apiVersion"], TABLE)


def applied(live: Any, manifest: Any) -> Any:
    """The live object with the values of the manifest."""
    if isinstance(live, dict) and isinstance(manifest, dict):
        return {**live, **{field: applied(live.get(field), value) for field, value in manifest.items()}}
    return manifest


def leaves(node: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(node, dict) and node:
        for field, value in node.items():
            yield from leaves(value, (*path, field))
    else:
        yield path


def with_small_pods(node: Any) -> Any:
    """The document with pods of one container, because no conversion reads pods, and copying them takes long."""
    if not isinstance(node, dict):
        return node
    if node.get("containers") and "restartPolicy" in node:
        return {"containers": [{"name": "main", "image": "a"}], "nodeName": "n"}
    return {field: with_small_pods(value) for field, value in node.items()}


def without(doc: Document, path: Path) -> Document:
    without = deep_copy(doc)
    node = without
    for step in path[:-1]:
        if step not in node:
            return without
        node = node[step]
    node.pop(path[-1], None)
    return without


def spec_of(doc: Document) -> Any:
    return pruned(doc.get("spec"))


def pruned(node: Any) -> Any:
    """The document without empty objects, which have no meaning."""
    if not isinstance(node, dict):
        return node
    kept = {field: pruned(value) for field, value in node.items()}
    return {field: value for field, value in kept.items() if value not in ({}, None)}


@pytest.mark.parametrize("name", CASES)
def test_a_manifest_that_is_applied_again_changes_nothing(name: str) -> None:
    manifest = {part: value for part, value in CASES[name].items() if part != "status"}
    live = read(manifest)
    assert spec_of(applied(live, manifest)) == spec_of(live)


@pytest.mark.parametrize("name", CASES)
def test_a_field_removed_from_a_manifest_has_no_effect_anymore(name: str) -> None:
    manifest = {part: with_small_pods(value) for part, value in CASES[name].items() if part != "status"}
    live, kept = read(manifest), {}
    for path in leaves(manifest["spec"], ("spec",)):
        less = without(manifest, path)
        after, wanted = stored(applied(without(live, path), less)), stored(less)
        if spec_of(after) != spec_of(wanted):
            kept[".".join(path)] = (spec_of(after), spec_of(wanted))
    assert list(kept) == []
