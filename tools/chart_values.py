"""The schema of the chart's values and a page that lists them, both generated from values.yaml and its comments.

values.yaml ──▶ values_of() ──▶ build_schema() ──▶ values.schema.json    render_table() ──▶ README.md of the chart
    python -m tools.chart_values charts/pykruise

The type of a value is the type of its default; RULES adds more for some values. The schema accepts names that
OpenKruise's chart has and this chart does not use, so that a values file of OpenKruise can be used. A test compares
the files with the generated text.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from pykruise.kinds.gates import ALIASES, list_all_gates
from pykruise.kube.documents import Document

__all__ = ["BEGIN", "END", "Value", "build_schema", "render_chart_files", "render_table", "values_of"]

BEGIN: Final = "<!-- values: generated, python -m tools.chart_values charts/pykruise -->"
END: Final = "<!-- end of values -->"


class Value(msgspec.Struct, frozen=True):
    """One value: its path, its default and its comment."""

    path: str
    default: Any
    comment: str = ""


def _gates_pattern() -> str:
    names = "|".join(("AllAlpha", "AllBeta", *sorted(list_all_gates()), *sorted(ALIASES)))
    text = f"({names})=(true|false)"
    return f"^({text}(,{text})*)?$"


_PORT: Final = {"type": "integer", "minimum": 1, "maximum": 65535}
_CIDRS: Final = {"type": "array", "items": {"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]+$"}}
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_OBJECTS: Final = {"type": "array", "items": {"type": "object"}}
_TEXT_OR_NUMBER: Final = {"type": ["string", "integer"]}

RULES: Final[Mapping[str, Document]] = {
    "crds.storedVersion": {"enum": ["v1alpha1", "v1beta1"]},
    "featureGates": {"type": "string", "pattern": _gates_pattern()},
    "imagePullSecrets": _OBJECTS,
    "manager.replicas": {"type": "integer", "minimum": 1},
    "manager.shards": {"type": "integer", "minimum": 1, "maximum": 16},
    "manager.shardBy": {"enum": ["object", "namespace"]},
    "manager.loggingFormat": {"enum": ["", "text", "json"]},
    "manager.log.level": _TEXT_OR_NUMBER,
    "manager.webhook.port": _PORT,
    "manager.metrics.port": _PORT,
    "manager.metrics.stateNamespaces": _TEXTS,
    "manager.healthProbe.port": _PORT,
    "manager.resyncPeriod": _TEXT_OR_NUMBER,
    "manager.tolerations": _OBJECTS,
    "manager.topologySpreadConstraints": _OBJECTS,
    "manager.extraEnvs": _OBJECTS,
    "daemon.log.level": _TEXT_OR_NUMBER,
    "daemon.port": _PORT,
    "daemon.maxWorkersForPullImage": _TEXT_OR_NUMBER,
    "daemon.extraEnvs": _OBJECTS,
    "dashboard.port": _PORT,
    "dashboard.allowedHosts": _TEXTS,
    "dashboard.tolerations": _OBJECTS,
    "networkPolicy.apiServers": _CIDRS,
    "networkPolicy.metricsFrom": _CIDRS,
    "networkPolicy.egressTo": _CIDRS,
    "webhookConfiguration.timeoutSeconds": {"type": "integer", "minimum": 1, "maximum": 30},
}
"""Schema of a value beyond the type of its default."""

OPEN: Final = frozenset({"manager.resources", "daemon.resources", "daemon.affinity", "dashboard.resources"})
"""Mappings with Kubernetes' own types: they have defaults, but accept any content."""

UNUSED: Final = (
    "installation.roleListGroups",
    "enableKubeCacheMutationDetector",
    "helmHooks.image",
    "helmHooks.nodeSelector",
    "helmHooks.tolerations",
)
"""Values of OpenKruise's chart that are accepted and have no effect."""


def values_of(text: str) -> list[Value]:
    """Return all values of a values.yaml in its order: scalars, lists, and mappings that are empty or in OPEN."""
    comments = _read_comments(text)
    return [
        Value(path, default, comments.get(path, ""))
        for path, default in _list_leaves(yaml.safe_load(text), "")
    ]


def _list_leaves(part: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in part.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and value and path not in OPEN:
            yield from _list_leaves(value, f"{path}.")
        else:
            yield path, value


_KEY: Final = re.compile(r"^(?P<indent> *)(?P<key>\w+):(?P<rest>.*)$")


def _read_comments(text: str) -> dict[str, str]:
    """Return the comments by path: the lines above a key, or the comment after its value."""
    comments: dict[str, str] = {}
    path: list[str] = []
    above: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            above.append(stripped.lstrip("# "))
        elif not stripped:
            above = []
        elif key := _KEY.match(line):
            depth = len(key["indent"]) // 2
            path[depth:] = [key["key"]]
            _, hash_sign, behind = key["rest"].partition(" # ")
            if words := " ".join(above) or (behind.strip() if hash_sign else ""):
                comments[".".join(path)] = words
            above = []
    return comments


def build_schema(values: Sequence[Value], comments: Mapping[str, str] | None = None) -> Document:
    """Return the JSON schema of all values. It rejects unknown names."""
    root = _closed_object()
    for value in values:
        parent, name = _find_parent(root, value.path)
        rule = {**_type_of(value), **RULES.get(value.path, {})}
        words = {"description": value.comment} if value.comment else {}
        parent["properties"][name] = {**rule, **words, "default": value.default}
    for path in UNUSED:
        parent, name = _find_parent(root, path)
        parent["properties"][name] = {
            "description": "Accepted for values files of OpenKruise; without effect."
        }
    root["properties"]["global"] = {"description": "Helm's values for subcharts; without effect."}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of pykruise", **root}


def _closed_object() -> Document:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _find_parent(root: Document, path: str) -> tuple[Document, str]:
    *names, last = path.split(".")
    for name in names:
        root = root["properties"].setdefault(name, _closed_object())
    return root, last


def _type_of(value: Value) -> Document:
    match value.default:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case str():
            return {"type": "string"}
        case list():
            return {"type": "array"}
        case _:
            return {"type": "object"}


def render_table(values: Sequence[Value]) -> str:
    """Return all values as a Markdown table."""
    rows = ["| value | default | |", "|---|---|---|"]
    for value in values:
        shown = json.dumps(value.default)
        default = "`…`" if len(shown) > _LONG else f"`{shown}`"
        rows.append(f"| `{value.path}` | {default} | {value.comment.replace('|', '/')} |")
    return "\n".join(rows) + "\n"


_LONG: Final = 60


def render_chart_files(folder: Path) -> Mapping[str, str]:
    """Return the text of each generated file, by its name in the chart."""
    values = values_of((folder / "values.yaml").read_text("utf-8"))
    page = (folder / "README.md").read_text("utf-8")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return {
        "values.schema.json": json.dumps(build_schema(values), indent=2, ensure_ascii=False) + "\n",
        "README.md": f"{head}{BEGIN}\n{render_table(values)}{END}{tail}",
    }


def main(argv: Sequence[str]) -> int:
    """Write the generated files into the chart's folder."""
    folder = Path(argv[0])
    for name, text in render_chart_files(folder).items():
        (folder / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
