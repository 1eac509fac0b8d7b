"""The CustomResourceDefinitions, compared with OpenKruise's (data/crds.json: facts read from its v1.9 manifests).

Every field path, type, format, default, enum, limit and list or map kind of the original exists here, in
every version. Additional fields are listed here, each with its reason.
"""

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pytest

from pykruise.kinds import build_crds, crds_of, list_conversions
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.schemas.crds import build_webhook_conversion

ORIGINALS = json.loads((Path(__file__).parent / "data" / "crds.json").read_text())
CRDS = {crd["metadata"]["name"]: crd for crd in build_crds()}
VERSIONS = [(name, version["name"]) for name, crd in CRDS.items() for version in crd["spec"]["versions"]]

_METADATA = "the original's schema has a bare object there, so the API server stores {}"
_FLAT = "manifests from before 1.9 have the flat strategy; the original drops it without a word"
_CLONE_SET = "spec.template.cloneSetTemplate.spec.updateStrategy"
_REUSE = "spec.template.cloneSetTemplate.spec.scaleStrategy"

LESS_FACTS: Mapping[tuple[str, str, str], str] = {
    ("uniteddeployments.apps.kruise.io", "v1alpha1", f"{_REUSE}.enablePVCReuse"): "default",
}
"""Facts of the original that are missing here. A default of false would switch off the reuse of claims in v1alpha1
templates of released versions."""

MORE_FIELDS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("advancedcronjobs.apps.kruise.io", "v1alpha1"): {
        "spec.template.imageListPullJobTemplate*": "a write through v1alpha1 keeps it; the original's loses it",
        "spec.template.broadcastJobTemplate.metadata.*": _METADATA,
    },
    ("advancedcronjobs.apps.kruise.io", "v1beta1"): {
        "spec.template.imageListPullJobTemplate.metadata.*": _METADATA,
        "spec.template.broadcastJobTemplate.metadata.*": _METADATA,
    },
    ("uniteddeployments.apps.kruise.io", "v1alpha1"): {
        f"{_CLONE_SET}.{field}*": _FLAT
        for field in (
            "inPlaceUpdateStrategy",
            "maxSurge",
            "maxUnavailable",
            "partition",
            "paused",
            "priorityStrategy",
            "scatterStrategy",
        )
    }
    | {
        f"{_REUSE}.disablePVCReuse": "released versions have it, and reuse claims where it is absent",
        "spec.topology.scheduleStrategy.adaptive.unschedulableLastSeconds": "released versions have it",
    },
    **{
        ("workloadspreads.apps.kruise.io", version): {"status.spread": "the column that shows where pods are"}
        for version in ("v1alpha1", "v1beta1")
    },
    **{
        ("sidecarsets.apps.kruise.io", version): {"status.conditions*": "what Flux and Helm wait for"}
        for version in ("v1alpha1", "v1beta1")
    },
}
"""CRD and version → patterns of fields that the original lacks, with the reason."""

MORE_COLUMNS: Mapping[str, tuple[str, ...]] = {"workloadspreads.apps.kruise.io": ("Spread",)}
"""CRD → columns that the original lacks."""

MERGED_LISTS: Final = {
    ("sidecarsets.apps.kruise.io", "spec.containers"),
    ("sidecarsets.apps.kruise.io", "spec.initContainers"),
    ("containerrecreaterequests.apps.kruise.io", "spec.containers"),
}
"""Lists (CRD and path) that the original has too, and that server-side apply merges only here."""

FACTS = {
    "type": "type",
    "format": "format",
    "enum": "enum",
    "default": "default",
    "minimum": "minimum",
    "maximum": "maximum",
    "minLength": "minLength",
    "maxLength": "maxLength",
    "pattern": "pattern",
    "listType": "x-kubernetes-list-type",
    "listMapKeys": "x-kubernetes-list-map-keys",
    "mapType": "x-kubernetes-map-type",
    "intOrString": "x-kubernetes-int-or-string",
    "preserveUnknown": "x-kubernetes-preserve-unknown-fields",
    "embeddedResource": "x-kubernetes-embedded-resource",
}


def fields_of(
    schema: Mapping[str, Any], path: str = "", *, required: bool = False
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Paths and facts of all fields of a schema, as in the data."""
    if path:
        facts = {name: schema[key] for name, key in FACTS.items() if key in schema}
        yield path, {**facts, **({"required": True} if required else {})}
    for name, child in schema.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        yield from fields_of(child, below, required=name in schema.get("required", ()))
    if "items" in schema:
        yield from fields_of(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from fields_of(schema["additionalProperties"], f"{path}{{}}")


def version_of(crd: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return next(version for version in crd["spec"]["versions"] if version["name"] == name)


def original_fields(crd: str, version: str) -> dict[str, Mapping[str, Any]]:
    versions = ORIGINALS[crd]["versions"]
    data = versions[version]
    if "fieldsOf" not in data:
        return dict(data["fields"])
    fields = {
        path: facts
        for path, facts in versions[data["fieldsOf"]]["fields"].items()
        if path not in data["without"]
    }
    return fields | data["fields"]


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_every_original_field_exists_with_equal_properties(name: str, version: str) -> None:
    # given
    expected = original_fields(name, version)
    # when
    result = dict(fields_of(version_of(CRDS[name], version)["schema"]["openAPIV3Schema"]))
    # then
    for path, facts in expected.items():
        left_out = LESS_FACTS.get((name, version, path))
        wanted = {fact: value for fact, value in facts.items() if fact != left_out}
        if _may_merge(name, path, facts):
            wanted = _merged(wanted, result[path])
        assert result.get(path) == wanted, path


def _may_merge(crd: str, path: str, facts: Mapping[str, Any]) -> bool:
    """Return whether OpenKruise has an open part at this path, or a list without a type that is now merged by key."""
    return "preserveUnknown" in facts or (crd, path) in MERGED_LISTS


def _merged(original: Mapping[str, Any], facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """OpenKruise's facts, changed by those of a merged list with open items, or of an open object."""
    if facts.get("listType") == "map":
        kept = {fact: value for fact, value in original.items() if fact != "preserveUnknown"}
        return kept | {fact: facts[fact] for fact in ("type", "listType", "listMapKeys")}
    return {**original, **({"type": "object"} if facts.get("type") == "object" else {})}


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_fields_that_the_original_lacks_are_listed_with_a_reason(name: str, version: str) -> None:
    # given
    listed = MORE_FIELDS.get((name, version), {})
    result = dict(fields_of(version_of(CRDS[name], version)["schema"]["openAPIV3Schema"]))
    # when
    more = result.keys() - original_fields(name, version).keys()
    # then
    unlisted = {path for path in more if not any(fnmatchcase(path, pattern) for pattern in listed)}
    unlisted -= set(_merged_parts(result))
    assert unlisted == set()
    assert all(any(fnmatchcase(path, pattern) for path in more) for pattern in listed)
    assert not any(result[path].get("required") for path in more if not _parent_is_more(path, more))


def _merged_parts(fields: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Fields that only define how lists of an open part are merged: they neither refuse nor drop a value."""
    for path, facts in fields.items():
        parent, _, key = path.rpartition(".")
        if facts == {"type": "object", "preserveUnknown": True} or _is_merged(facts):
            yield path
        elif facts == {"type": "string", "default": ""} and parent.endswith("[]"):
            keys = fields[parent.removesuffix("[]")].get("listMapKeys", ())
            yield from [path] if key in keys else ()


def _is_merged(facts: Mapping[str, Any]) -> bool:
    return facts.keys() == {"type", "listType", "listMapKeys"} and facts["listType"] == "map"


def _parent_is_more(path: str, more: set[str]) -> bool:
    return any(path.startswith((f"{other}.", f"{other}[", f"{other}{{")) for other in more)


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_columns_and_subresources_are_those_of_the_original(name: str, version: str) -> None:
    expected = ORIGINALS[name]["versions"][version]
    result = version_of(CRDS[name], version)
    columns = [
        {key: value for key, value in column.items() if key != "description"}
        for column in result["additionalPrinterColumns"]
        if column["name"] not in MORE_COLUMNS.get(name, ())
    ]
    subresources = {"status": {}}
    if "scale" in expected["subresources"]:
        subresources["scale"] = expected["subresources"]["scale"]
    assert columns == expected["additionalPrinterColumns"]
    assert result["subresources"] == subresources
    assert (result["served"], result["storage"]) == (expected["served"], expected["storage"])


def test_the_kinds_equal_those_of_openkruise() -> None:
    assert CRDS.keys() == ORIGINALS.keys()


@pytest.mark.parametrize("name", CRDS)
def test_names_and_versions_are_those_of_the_original(name: str) -> None:
    expected, spec = ORIGINALS[name], CRDS[name]["spec"]
    assert (spec["group"], spec["scope"]) == (expected["group"], expected["scope"])
    assert [version["name"] for version in spec["versions"]] == list(expected["versions"])
    for part in ("kind", "listKind", "plural", "singular"):
        assert spec["names"][part] == expected[part]
    for part in ("shortNames", "categories"):
        assert spec["names"].get(part, []) == expected[part]


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_every_crd_field_has_a_description(name: str, version: str) -> None:
    """`kubectl explain` has a useful text for each field."""

    def walk(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
        yield path, schema.get("description", "")
        for field, child in schema.get("properties", {}).items():
            yield from walk(child, f"{path}.{field}")
        for below in ("items", "additionalProperties"):
            properties = schema.get(below, {}).get("properties", {})
            for field, child in properties.items():
                yield from walk(child, f"{path}.{field}")

    root = version_of(CRDS[name], version)["schema"]["openAPIV3Schema"]
    texts = dict(walk(root, ""))
    texts.pop(".metadata")  # the API server has its own text for it
    assert [path for path, text in texts.items() if not text.endswith(".")] == []


def test_a_webhook_converts_exactly_the_kinds_with_two_versions() -> None:
    # given
    stanza = build_webhook_conversion(service=("kruise-system", "kruise-webhook-service"), ca_bundle=b"PEM")
    # when
    kinds = {crd["metadata"]["name"]: crd["spec"]["conversion"] for crd in build_crds(stanza)}
    # then
    for name, conversion in kinds.items():
        two = len(CRDS[name]["spec"]["versions"]) == 2
        assert conversion == (stanza if two else {"strategy": "None"})


def test_every_kind_with_two_versions_has_a_conversion() -> None:
    two = {
        (crd["spec"]["group"], crd["spec"]["names"]["kind"])
        for crd in CRDS.values()
        if len(crd["spec"]["versions"]) == 2
    }
    assert list_conversions().keys() == two
    for conversion in list_conversions().values():
        assert (conversion.hub, conversion.spoke) == ("v1beta1", "v1alpha1")


def test_a_selection_of_definitions_equals_that_part_of_all() -> None:
    names = ["clonesets.apps.kruise.io", "workloadspreads.apps.kruise.io"]
    assert crds_of([WORKLOAD_SPREADS, CLONE_SETS]) == [
        crd for crd in build_crds() if crd["metadata"]["name"] in names
    ]


def test_definitions_without_descriptions_are_the_same_but_for_those() -> None:
    # given a kind whose schema contains shapes of other types, built with descriptions before
    [described] = crds_of([SIDECAR_SETS])
    # when
    [bare] = crds_of([SIDECAR_SETS], described=False)
    # then
    assert bare == _without_descriptions(described) != described
    assert crds_of([SIDECAR_SETS]) == [described]


def _without_descriptions(value: Any) -> Any:
    """The schema without descriptions. A field with the name `description` has a schema, and stays."""
    if isinstance(value, list):
        return [_without_descriptions(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_descriptions(item)
        for name, item in value.items()
        if name != "description" or not isinstance(item, str)
    }
