"""Fields that a text names, and whether a kind has them and allows changes of them.

text ──▶ fields_in() ──▶ `spec.parallelism` ──▶ has_field(): in the schemas of the kind's versions
                                           ──▶ forbidden(): admission's response to a change (a dry run)
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from pykruise.kube.documents import get_path
from pykruise.kube.errors import ApiError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.plans.kind import Kind
from support.open_definitions import open_crds
from support.scenario import Object, Stage

__all__ = ["fields_in", "forbidden", "has_field"]

_FIELD: Final = re.compile(r"\bspec(?:\.[a-z][A-Za-z0-9]*)+")
_POD_TEMPLATE: Final = "template"


def fields_in(text: str) -> Iterator[str]:
    """Paths of fields, each once: `spec.updateStrategy.paused`."""
    yield from dict.fromkeys(_FIELD.findall(text))


@cache
def _schemas(kind: str) -> tuple[Mapping[str, Any], ...]:
    (crd,) = [crd for crd in open_crds() if crd["spec"]["names"]["kind"] == kind]
    return tuple(version["schema"]["openAPIV3Schema"] for version in crd["spec"]["versions"])


def has_field(kind: Kind, path: str) -> bool:
    """Whether a version of the kind has the field; fields below a pod template are Kubernetes' own."""
    return any(_has(schema, path.split(".")) for schema in _schemas(kind.resource.kind))


def _has(schema: Mapping[str, Any], names: list[str]) -> bool:
    for number, name in enumerate(names):
        if schema.get("type") == "array":
            schema = schema.get("items") or {}
        properties = schema.get("properties")
        if properties is None:
            is_open = bool(
                schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("additionalProperties")
            )
            return is_open or _POD_TEMPLATE in names[:number]
        if name not in properties:
            return False
        schema = properties[name]
    return True


async def forbidden(stage: Stage, kind: Kind, key: Key, document: Object, path: str) -> str:
    """Why admission forbids that the field is changed; empty: it does not. Nothing is stored."""
    names = path.split(".")
    changed = _changed(get_path(document, *names))
    if changed is None:
        return ""
    body: Any = changed
    for name in reversed(names):
        body = {name: body}
    try:
        await stage.client.patch(
            kind.resource, key.namespace, key.name, body, patch_type=PatchType.MERGE, dry_run=True
        )
    except ApiError as error:
        return "; ".join(
            f"{cause.field}: {cause.message}"
            for cause in error.causes
            if cause.reason == "FieldValueForbidden"
        )
    return ""


def _changed(value: Any) -> Any:
    """Another value of the same type; None: no other valid value is known."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case {"containers": [first, *others]}:
            return {"containers": [{**first, "image": f"{first['image']}x"}, *others]}
        case {"spec": {"containers": [first, *others]}}:
            return {"spec": {"containers": [{**first, "image": f"{first['image']}x"}, *others]}}
        case [{"image": image}, *others]:
            return [{**value[0], "image": f"{image}x"}, *others]
        case {"matchLabels": labels}:
            return {"matchLabels": {**labels, "another": "label"}}
        case _:
            return None
