"""Server-side apply of templates by several managers: each keeps the containers and volumes that it applied.

It goes over every merged list of every kind in every version, as the definitions name them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from pykruise.kinds import build_crds
from pykruise.kube.documents import decode
from pykruise.kube.errors import ConflictError, InvalidError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import blank_of
from support.scenario import Stage

Object = dict[str, Any]


class Place(NamedTuple):
    """A merged list of a kind's spec."""

    resource: Resource
    schema: Object
    """The schema of the spec."""
    path: tuple[str, ...]
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.resource.plural}-{self.resource.version}-{'.'.join(self.path)}"


def places() -> Iterator[Place]:
    for crd in build_crds():
        spec = crd["spec"]
        for version in spec["versions"]:
            resource = Resource(
                spec["group"], version["name"], spec["names"]["plural"], spec["names"]["kind"],
                namespaced=spec["scope"] == "Namespaced",
            )  # fmt: skip
            schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
            for path, keys in merged_lists(schema):
                yield Place(resource, schema, path, keys)


def merged_lists(
    schema: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    if schema.get("x-kubernetes-list-type") == "map":
        yield path, tuple(schema["x-kubernetes-list-map-keys"])
    for name, child in schema.get("properties", {}).items():
        yield from merged_lists(child, (*path, name))
    if "items" in schema:
        yield from merged_lists(schema["items"], (*path, "[]"))


def with_item(place: Place, item: Object, *, complete: bool) -> Object:
    """A spec with this item in the list; lists on the way there have one item, called main.

    `complete`: with all required fields of the objects on the way.
    """
    spec: Object = blank_of(place.schema) if complete else {}
    here: Any = spec
    schema = place.schema
    for step, following in zip(place.path, (*place.path[1:], ""), strict=True):
        schema = schema["items"] if step == "[]" else schema["properties"][step]
        if step == "[]":
            here.append({"name": "main"})
            here = here[0]
        elif following == "[]":
            here = here.setdefault(step, [])
        elif following:
            here[step] = {**(blank_of(schema) if complete else {}), **(here.get(step) or {})}
            here = here[step]
        else:
            here[step] = [item]
    return spec


def items_of(document: Object, place: Place) -> list[Object]:
    here: Any = document["spec"]
    for step in place.path:
        here = here[0] if step == "[]" else here[step]
    items: list[Object] = here
    return items


def value_of(place: Place, text: str) -> Object:
    """A field of an item, with the text as its value: any field if the schema allows it, else one of the schema."""
    schema = place.schema
    for step in place.path:
        schema = schema["items"] if step == "[]" else schema["properties"][step]
    items = schema["items"]
    if items.get("x-kubernetes-preserve-unknown-fields"):
        return {"value": text}
    fields = (
        (name, holding(child, text)) for name, child in items["properties"].items() if name not in place.keys
    )
    return next({name: value} for name, value in fields if value is not None)


def holding(schema: Object, text: str) -> Any:
    """A value of the schema that contains the text; None: no value can contain it."""
    if schema.get("type") == "string" and "enum" not in schema:
        return text
    for name, child in schema.get("properties", {}).items():
        value = holding(child, text)
        if value is not None:
            return {**blank_of(schema), name: value}
    return None


PLACES = list(places())
RESOURCES = {f"{place.resource.plural}-{place.resource.version}": place.resource for place in PLACES}


def test_every_kind_with_a_template_has_merged_lists() -> None:
    assert len({place.resource.plural for place in PLACES}) >= 8
    assert {place.resource.version for place in PLACES} == {"v1alpha1", "v1beta1"}


async def apply(stage: Stage, place: Place, name: str, item: Object, *, manager: str) -> list[Object]:
    """Apply this item as a field manager; returns the list. The manager `app` also applies required fields."""
    document = {
        "apiVersion": place.resource.api_version,
        "kind": place.resource.kind,
        "metadata": {"name": name},
        "spec": with_item(place, item, complete=manager == "app"),
    }
    namespace = stage.namespace if place.resource.namespaced else ""
    raw = await stage.client.patch(
        place.resource, namespace, name, document, patch_type=PatchType.APPLY, field_manager=manager
    )
    return items_of(decode(raw), place)


@pytest.mark.few_on_real(20)
@pytest.mark.parametrize("resource", RESOURCES.values(), ids=RESOURCES)
async def test_two_managers_apply_items_of_one_list(stage: Stage, resource: Resource) -> None:
    mine = [place for place in PLACES if place.resource == resource]
    for number, place in enumerate(mine):
        name = f"{stage.namespace}-{number}"
        ours = {**dict.fromkeys(place.keys, "a"), **value_of(place, "1")}
        theirs = {**dict.fromkeys(place.keys, "b"), **value_of(place, "1")}
        with stage.past_admission():  # which asks for more than a list
            # given an item that one manager applied
            assert await apply(stage, place, name, ours, manager="app") == [ours]
            # when another applies an item of its own, then both are there
            assert await apply(stage, place, name, theirs, manager="mesh") == [ours, theirs]
            # when the first changes its item, then that of the other stays
            changed = {**ours, **value_of(place, "2")}
            assert await apply(stage, place, name, changed, manager="app") == [changed, theirs]
            # and none changes what the other has applied
            with pytest.raises(ConflictError):
                await apply(stage, place, name, {**ours, **value_of(place, "3")}, manager="mesh")
            # and no item is there twice
            with pytest.raises(InvalidError, match="Duplicate value"):
                await create_twice(stage, place, ours)


async def create_twice(stage: Stage, place: Place, item: Object) -> None:
    spec = with_item(place, item, complete=True)
    items_of({"spec": spec}, place).append(item)
    document = {
        "apiVersion": place.resource.api_version,
        "kind": place.resource.kind,
        "metadata": {"name": f"{stage.namespace}-twice"},
        "spec": spec,
    }
    namespace = stage.namespace if place.resource.namespaced else ""
    await stage.client.create(place.resource, namespace, document)
