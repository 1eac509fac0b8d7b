"""Generate the facts about Kubernetes' types for each minor version: `python -m tools.kubernetes_facts`.

    k8s.io/api, apimachinery, apiextensions-apiserver of a minor ──facts.go──▶ fields and protobuf numbers
    k8s.io/kubernetes of a minor: api/openapi-spec/swagger.json  ───────────▶ how lists and maps merge
    k8s.io/kubernetes of the newest: pkg/features/kube_features.go ─────────▶ minors that add and enable each gate
        ──▶ packages/kube/…/data/{types,merge_keys}.json           the facts of the newest minor
        ──▶ packages/kube/…/data/{types,merge_keys}_before.json    differences of each older minor from the next one
        ──▶ packages/kube/…/data/gates.json, packages/sandbox/…/data/protobuf.json

It needs Go, and the Go proxy unless Go's cache has the modules, and takes about five minutes. When a minor is
released, add it to MINORS, run this, and review the changes in types_before.json with `git diff`.
"""

import json
import re
import subprocess
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

MINORS: Final = ("1.28", "1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
_ROOT: Final = Path(__file__).parents[2]
_KUBE: Final = _ROOT / "packages/kube/src/pykruise/kube/data"
_SANDBOX: Final = _ROOT / "packages/sandbox/src/pykruise/sandbox/data"
_PROGRAM: Final = Path(__file__).parent / "facts.go"
_MODULES: Final = ("api", "apimachinery", "apiextensions-apiserver")
_GO_MOD: Final = "module facts\n\ngo 1.26.0\n"
_ROOTS: Final = (
    *(f"io.k8s.api.core.v1.{kind}" for kind in ("Pod", "PodTemplateSpec", "Node", "Service", "Event")),
    "io.k8s.api.apps.v1.Deployment",
)

Definitions = dict[str, dict[str, Any]]


def main() -> None:
    """Write all files."""
    read = {minor: _types_of(minor) for minor in MINORS}
    newest = MINORS[-1]
    kept = _find_reached(read[newest]["types"], json.loads((_KUBE / "types.json").read_text()))
    types = {minor: _select_definitions(read[minor]["types"], kept) for minor in MINORS}
    _write_series(_KUBE, "types", types)
    _write_series(_KUBE, "merge_keys", {minor: _merge_keys(minor, types[minor]) for minor in MINORS})
    _write_file(_KUBE / "gates.json", _read_gates(newest))
    known = json.loads((_SANDBOX / "protobuf.json").read_text())
    numbers = {name: read[newest]["protobuf"].get(name, known.get(name)) for name in sorted({*kept, *known})}
    _write_file(
        _SANDBOX / "protobuf.json", {name: fields for name, fields in numbers.items() if fields is not None}
    )


def _types_of(minor: str) -> dict[str, Definitions]:
    """Return `types` and `protobuf` of all definitions of a minor."""
    version = f"v0{minor.removeprefix('1')}.0"
    with tempfile.TemporaryDirectory(prefix="kubernetes-facts-") as name:
        folder = Path(name)
        (folder / "facts.go").write_text(_PROGRAM.read_text())
        required = "".join(f"require k8s.io/{module} {version}\n" for module in _MODULES)
        (folder / "go.mod").write_text(_GO_MOD + required)
        done = subprocess.run(
            ["go", "run", "-mod=mod", "."], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
        )
    result: dict[str, Definitions] = json.loads(done.stdout)
    return result


def _find_reached(definitions: Definitions, names: Collection[str]) -> set[str]:
    """Return the names of these definitions and of all definitions that their fields refer to."""
    reached: set[str] = set()
    todo = [*names, *_ROOTS]
    while todo:
        if (name := todo.pop()) in reached or name not in definitions:
            continue
        reached.add(name)
        todo += [code.partition("=")[0].lstrip("0?*[]{}") for code in definitions[name].values()]
    return reached


def _select_definitions(definitions: Definitions, names: Collection[str]) -> Definitions:
    return {name: dict(sorted(definitions[name].items())) for name in sorted(names) if name in definitions}


def _merge_keys(minor: str, types: Definitions) -> Definitions:
    described = json.loads(_file_of(minor, "api/openapi-spec/swagger.json"))["definitions"]
    rules: Definitions = {}
    for name in sorted({*types, *_find_reached_scalars(described, types)}):
        properties = (described.get(name) or {}).get("properties") or {}
        fields = {field: _merge_rule(schema, described) for field, schema in sorted(properties.items())}
        if name in described:
            rules[name] = {field: rule for field, rule in fields.items() if rule}
    return rules


def _find_reached_scalars(described: Mapping[str, Any], types: Definitions) -> Iterator[str]:
    """Yield the definitions without fields (quantities, times) that fields of `types` refer to."""
    for name in types:
        for schema in ((described.get(name) or {}).get("properties") or {}).values():
            for part in (schema, schema.get("items") or {}, schema.get("additionalProperties") or {}):
                if target := _target_of(part):
                    yield target


def _merge_rule(schema: Mapping[str, Any], described: Mapping[str, Any]) -> dict[str, Any]:
    rule = {name: schema[extension] for extension, name in _EXTENSIONS.items() if extension in schema}
    if schema.get("type") == "array":
        item = schema["items"]
        of = {"of": "list", "ref": _target_of(item), "itemMapType": _map_type(item, described)}
    elif schema.get("type") == "object" and (target := _target_of(schema.get("additionalProperties") or {})):
        of = {"of": "map", "ref": target}
    else:
        of = {"ref": _target_of(schema), "mapType": rule.get("mapType") or _map_type(schema, described)}
    return {**rule, **{name: value for name, value in of.items() if value}}


_EXTENSIONS: Final = {
    "x-kubernetes-patch-strategy": "patchStrategy",
    "x-kubernetes-patch-merge-key": "patchMergeKey",
    "x-kubernetes-list-type": "listType",
    "x-kubernetes-list-map-keys": "listMapKeys",
    "x-kubernetes-map-type": "mapType",
}


def _map_type(schema: Mapping[str, Any], described: Mapping[str, Any]) -> str:
    own: str = schema.get("x-kubernetes-map-type") or ""
    return own or (described.get(_target_of(schema)) or {}).get("x-kubernetes-map-type") or ""


def _target_of(schema: Mapping[str, Any]) -> str:
    return str(schema.get("$ref") or "").rpartition("/")[2]


def _read_gates(minor: str) -> dict[str, dict[str, str]]:
    """Return each gate that affects pods, with the minor in which it was added and the minor in which it was switched
    on.
    """
    source = _file_of(minor, "pkg/features/kube_features.go")
    asked = set(re.findall(r"features\.(\w+)\)", _file_of(minor, "pkg/api/pod/util.go"))) | {*_FURTHER_GATES}
    gates: dict[str, dict[str, str]] = {}
    for name, body in re.findall(r"^\t(\w+): \{\n(.*?)^\t\},", source, re.DOTALL | re.MULTILINE):
        if name not in asked:
            continue
        stages = re.findall(r'MustParse\("([\d.]+)"\), Default: (true|false)', body)
        on = [since for since, default in stages if default == "true"]
        gates[name] = {"since": stages[0][0], **({"on": on[0]} if on else {})}
    return dict(sorted(gates.items()))


_FURTHER_GATES: Final = (
    "InPlacePodVerticalScalingInitContainers",
    "NodeDeclaredFeatures",
    "RelaxedDNSSearchValidation",
)


def _file_of(minor: str, path: str) -> str:
    version = f"v{minor}.0"
    asked = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@{version}"]
    done = subprocess.run(asked, cwd=tempfile.gettempdir(), stdout=subprocess.PIPE, text=True, check=True)
    with zipfile.ZipFile(json.loads(done.stdout)["Zip"]) as archive:
        return archive.read(f"k8s.io/kubernetes@{version}/{path}").decode()


def _write_series(folder: Path, name: str, series: Mapping[str, Definitions]) -> None:
    """Write the definitions of the newest minor, and for each older minor its differences from the next one."""
    _write_file(folder / f"{name}.json", series[MINORS[-1]])
    before = {
        older: _find_difference(series[newer], series[older])
        for older, newer in reversed(list(pairwise(MINORS)))
    }
    blocks = [
        f"{json.dumps(minor)}: {{\n{_format_lines(changed)}\n}}" if changed else f"{json.dumps(minor)}: {{}}"
        for minor, changed in before.items()
    ]
    (folder / f"{name}_before.json").write_text("{\n" + ",\n".join(blocks) + "\n}\n")


def _find_difference(newer: Definitions, older: Definitions) -> dict[str, Any]:
    """Return the changes that turn the newer minor's definitions into the older minor's. null: the older minor lacks
    it.
    """
    difference: dict[str, Any] = {name: None for name in newer if name not in older}
    for name, fields in older.items():
        other = newer.get(name) or {}
        changed = {
            field: fields.get(field)
            for field in sorted({*fields, *other})
            if fields.get(field) != other.get(field)
        }
        if changed or name not in newer:
            difference[name] = changed
    return dict(sorted(difference.items()))


def _write_file(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text("{\n" + _format_lines(value) + "\n}\n")


def _format_lines(value: Mapping[str, Any]) -> str:
    return ",\n".join(f"  {json.dumps(name)}: {json.dumps(fields)}" for name, fields in value.items())


if __name__ == "__main__":
    main()
