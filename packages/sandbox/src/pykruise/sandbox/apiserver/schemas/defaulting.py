"""Defaults of a schema, filled into a document where a value is absent, or is null but not nullable.

a schema node ──▶ compile_fill() ──▶ Fill: changes a value in place; None when the node has no defaults
"""

from collections.abc import Callable, Mapping
from typing import Any

from pykruise.kube.documents import deep_copy
from pykruise.sandbox.apiserver.schemas.paths import Schema

Fill = Callable[[Any], None]


def compile_fill(node: Schema) -> Fill | None:
    items = node.get("items")
    item_default = items.get("default") if isinstance(items, Mapping) and not items.get("nullable") else None
    fill_item = compile_fill(items) if isinstance(items, Mapping) else None
    properties: Mapping[str, Schema] = node.get("properties") or {}
    defaults = [
        (name, sub["default"], bool(sub.get("nullable")))
        for name, sub in properties.items()
        if sub.get("default") is not None
    ]
    fills = [(name, fill) for name, fill in ((n, compile_fill(s)) for n, s in properties.items()) if fill]
    extra = node.get("additionalProperties")
    fill_extra = compile_fill(extra) if isinstance(extra, Mapping) else None
    extra_default = extra.get("default") if isinstance(extra, Mapping) and not extra.get("nullable") else None
    if not (defaults or fills or fill_extra or fill_item) and item_default is None and extra_default is None:
        return None

    def fill(value: Any) -> None:
        if type(value) is dict:
            for name, default, nullable in defaults:
                if name not in value or (value[name] is None and not nullable):
                    value[name] = deep_copy(default)
            for name, sub in fills:
                if name in value:
                    sub(value[name])
            if fill_extra or extra_default is not None:
                for name in value:
                    if name in properties:
                        continue
                    if value[name] is None and extra_default is not None:
                        value[name] = deep_copy(extra_default)
                    if fill_extra:
                        fill_extra(value[name])
        elif type(value) is list:
            for index, item in enumerate(value):
                if item is None and item_default is not None:
                    value[index] = item = deep_copy(item_default)
                if fill_item:
                    fill_item(item)

    return fill
