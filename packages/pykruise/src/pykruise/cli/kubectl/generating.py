"""Program `resourcedistributiongenerator`: a ResourceDistribution from files and literals, for kustomize's exec
functions.

ResourceList on stdin ──▶ generate_distribution() ──▶ ResourceDistribution ──▶ ResourceList on stdout

It reads files in the working directory and its subdirectories. The same input produces the same bytes.
"""

import base64
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.kube.documents import Document
from pykruise.kube.yaml_documents import format_yaml, read_yaml

_is_key = re.compile(r"[A-Za-z0-9._-]+").fullmatch
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def main() -> None:
    """Run the program. An error is one line on standard error and exit code 1."""
    try:
        given = read_yaml(sys.stdin.read())
        if not isinstance(given, dict) or not isinstance(given.get("functionConfig"), dict):
            raise KubectlError("stdin is not a ResourceList with a functionConfig")
        made = generate_distribution(given["functionConfig"], folder=Path.cwd())
        items = [*(given.get("items") or ()), made]
        answer = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": items}
        sys.stdout.write(format_yaml(answer, sort_keys=True, allow_unicode=True, width=2**30))
    except (KubectlError, yaml.YAMLError, OSError) as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        sys.exit(1)


def generate_distribution(config: Mapping[str, Any], *, folder: Path) -> Document:
    """Build the ResourceDistribution. Raises KubectlError with the invalid field."""
    name = (config.get("metadata") or {}).get("name")
    if not name:
        raise KubectlError("metadata.name is required")
    options = config.get("options") or {}
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "ResourceDistribution",
        "metadata": _build_metadata(name, options),
        "spec": {
            "resource": _build_resource(config.get("resource") or {}, folder),
            "targets": _build_targets(config.get("targets") or {}),
        },
    }


def _build_metadata(name: str, options: Mapping[str, Any]) -> Document:
    fields = {field: dict(options[field]) for field in ("annotations", "labels") if options.get(field)}
    return {"name": name, **fields}


def _build_resource(given: Mapping[str, Any], folder: Path) -> Document:
    kind, name = given.get("resourceKind"), given.get("resourceName")
    if kind not in ("ConfigMap", "Secret"):
        raise KubectlError(f"resource.resourceKind must be ConfigMap or Secret, not {kind!r}")
    if not name:
        raise KubectlError("resource.resourceName is required")
    options = given.get("resourceOptions") or {}
    data: Document = {}
    binary: Document = {}
    for key, value in _read_entries(given, folder):
        if not _is_key(key):
            raise KubectlError(
                f"resource: {key!r} is not a valid key: only letters, digits, '-', '_' and '.'"
            )
        if key in data or key in binary:
            raise KubectlError(f"resource: key {key!r} occurs twice")
        if kind == "Secret":
            data[key] = base64.b64encode(value).decode()
        else:
            try:
                data[key] = value.decode("utf-8")
            except UnicodeDecodeError:
                binary[key] = base64.b64encode(value).decode()
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": _build_metadata(name, options),
        **({"data": data} if data else {}),
        **({"binaryData": binary} if binary else {}),
        **({"type": given.get("type") or "Opaque"} if kind == "Secret" else {}),
        **({"immutable": True} if options.get("immutable") else {}),
    }


def _read_entries(given: Mapping[str, Any], folder: Path) -> list[tuple[str, bytes]]:
    entries: list[tuple[str, bytes]] = []
    for file in given.get("files") or ():
        key, sign, path = str(file).partition("=")
        entries.append((key if sign else Path(key).name, _read(folder, path if sign else key)))
    for literal in given.get("literals") or ():
        key, sign, value = str(literal).partition("=")
        if not sign or not key:
            raise KubectlError(f"resource.literals: {literal!r} is not KEY=VALUE")
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        entries.append((key, value.encode()))
    for env in given.get("envs") or ():
        for line in _read(folder, str(env)).decode("utf-8").splitlines():
            text = line.strip()
            if text and not text.startswith("#"):
                key, _, value = text.partition("=")
                entries.append((key, value.encode()))
    return entries


def _read(folder: Path, name: str) -> bytes:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise KubectlError(f"{name}: files must not be outside of the working directory")
    try:
        return path.read_bytes()
    except OSError as error:
        raise KubectlError(f"{name}: {error.strerror}") from error


def _build_targets(given: Mapping[str, Any]) -> Document:
    targets: Document = {}
    if given.get("allNamespaces"):
        targets["allNamespaces"] = True
    for field in ("includedNamespaces", "excludedNamespaces"):
        if names := given.get(field):
            targets[field] = {"list": [{"name": str(name)} for name in names]}
    if selector := given.get("namespaceLabelSelector"):
        targets["namespaceLabelSelector"] = _build_selector(selector)
    if not targets:
        raise KubectlError("targets must select namespaces")
    return targets


def _build_selector(given: Mapping[str, Any]) -> Document:
    expressions = [_build_expression(expression) for expression in given.get("matchExpressions") or ()]
    return {
        **({"matchLabels": dict(given["matchLabels"])} if given.get("matchLabels") else {}),
        **(
            {"matchExpressions": sorted(expressions, key=lambda expression: str(expression["key"]))}
            if expressions
            else {}
        ),
    }


def _build_expression(given: Mapping[str, Any]) -> Document:
    where = "targets.namespaceLabelSelector.matchExpressions"
    key, operator, values = given.get("key"), given.get("operator"), given.get("values") or []
    if not key:
        raise KubectlError(f"{where}: key is required")
    if operator not in _OPERATORS:
        raise KubectlError(f"{where}[{key}]: operator must be one of {', '.join(_OPERATORS)}")
    if operator in ("In", "NotIn"):
        _check_values(values, f"{where}[{key}]")
    elif values:
        raise KubectlError(f"{where}[{key}]: {operator} cannot have values")
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _check_values(values: Sequence[Any], where: str) -> None:
    if not values:
        raise KubectlError(f"{where}: values are required")
    if any(not value for value in values):
        raise KubectlError(f"{where}: values must not be empty")
    if len(set(values)) != len(values):
        raise KubectlError(f"{where}: values must not repeat")
