"""Rendering of a Helm chart in this process: Go templates with the functions of Helm that the chart uses.

This is not Helm itself: `gotpl` executes the templates as Go's text/template does; the functions below follow Sprig's.
The test fails if a template uses another function.
"""

import copy
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from gotpl import Template
from gotpl.errors import TemplateExecutionError

from support.yaml_documents import yaml_document, yaml_documents

Values = dict[str, Any]

IMAGE_VALUES: Values = {"image": {"registry": "pykruise"}}
"""Required values of the chart: the registry of its images."""


class ChartRefusalError(Exception):
    """The chart reports a missing value."""


def _fail(message: str) -> str:
    raise ChartRefusalError(message)


def _is_at_least(constraint: str, version: str) -> bool:
    """Sprig's semverCompare for constraints as the chart has them: `>=1.30-0`."""
    least = constraint.removeprefix(">=").removesuffix("-0").split(".")
    return [int(part) for part in version.removeprefix("v").split(".")[:2]] >= [int(part) for part in least]


def _dig(*path_default_and_scope: Any) -> Any:
    """Sprig's dig: the value at a path of keys, or the default."""
    *path, default, scope = path_default_and_scope
    for key in path:
        if key not in scope:
            return default
        scope = scope[key]
    return scope


def _look_up(live: Sequence[Values], version: str, kind: str, namespace: str, name: str) -> Values:
    """Helm's lookup: an object of the cluster; an empty one if it does not exist."""
    wanted = (version, kind, namespace, name)
    for doc in live:
        meta = doc["metadata"]
        if (doc["apiVersion"], doc["kind"], meta.get("namespace", ""), meta["name"]) == wanted:
            return doc
    return {}


def render(
    chart: Path,
    *,
    release: str = "kruise",
    revision: int = 1,
    live: Sequence[Values] = (),
    kubernetes: str = "v1.37.0",
    **values: Any,
) -> list[Any]:
    """All objects of a chart. `values` replace those of values.yaml (mappings are merged, and None removes a value), in
    addition to IMAGE_VALUES. `live`: objects of the cluster. `revision`: number of the release's new revision.
    """
    texts = _render_templates(
        chart, ".yaml", release=release, revision=revision, live=live, kubernetes=kubernetes, values=values
    )
    return [document for text in texts for document in copy.deepcopy(_loaded(text))]


def render_notes(chart: Path, **values: Any) -> str:
    """The text that Helm prints after the installation, with values as those of `render`."""
    [text] = _render_templates(
        chart, "NOTES.txt", release="kruise", revision=1, live=(), kubernetes="v1.37.0", values=values
    )
    return text


def _render_templates(
    chart: Path,
    ending: str,
    *,
    release: str,
    revision: int,
    live: Sequence[Values],
    kubernetes: str,
    values: Values,
) -> list[str]:
    """The texts of the templates whose names have this ending."""
    result = _merged(yaml_document((chart / "values.yaml").read_text()), {**IMAGE_VALUES, **values})
    about = yaml_document((chart / "Chart.yaml").read_text())
    data = {
        "Values": result,
        "Chart": {"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
        "Capabilities": {"KubeVersion": {"Version": kubernetes}},
        "Release": {"Name": release, "Namespace": "default", "Service": "Helm", "Revision": revision},
    }
    sources = {path.name: path.read_text() for path in sorted((chart / "templates").iterdir())}
    holder: list[Template] = []
    functions: dict[str, Callable[..., object]] = {
        "contains": lambda part, text: part in text,
        "default": lambda fallback, value=None: value or fallback,
        "dict": lambda *items: dict(zip(items[::2], items[1::2], strict=True)),
        "dig": _dig,
        "hasPrefix": lambda prefix, text: text.startswith(prefix),
        "hasSuffix": lambda suffix, text: text.endswith(suffix),
        "include": lambda name, scope: holder[0].render_template(name, data=scope),
        "fail": _fail,
        "int": int,
        "list": lambda *items: list(items),
        "lookup": functools.partial(_look_up, live),
        "join": lambda between, texts: between.join(texts),
        "nindent": lambda width, text: "\n" + "\n".join(" " * width + line for line in text.splitlines()),
        "regexMatch": lambda pattern, text: re.search(pattern, text) is not None,
        "semverCompare": _is_at_least,
        "quote": lambda value: '"' + str(value).replace('"', '\\"') + '"',
        "toYaml": lambda value: yaml.safe_dump(_plain(value), sort_keys=False).rstrip("\n"),
    }
    holder.append(Template.from_sources(sources, functions=functions))
    texts = []
    for name in sources:
        if name.endswith(ending):
            try:
                texts.append(holder[0].render_template(name, data))
            except TemplateExecutionError as error:
                if isinstance(error.__cause__, ChartRefusalError):
                    raise error.__cause__ from None
                raise
    return texts


@functools.lru_cache(maxsize=16)  # the texts of a chart are mostly the same, whatever the values
def _loaded(text: str) -> list[Any]:
    return yaml_documents(text)


def _merged(base: Values, changes: Values) -> Values:
    merged = copy.deepcopy(base)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
            continue
        is_both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if is_both else value
    return merged


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
