"""Fields of each kind's spec that seeds set, compared with the schema of its CRD.

    python -m simulation.fields --seeds 2000      for each kind the fields that no seed sets

schema ──▶ fields_of() ──────────────┐
seeds ──▶ scripts ──▶ objects, and   ├──▶ never set: printed; test_fields.py has a reason for each
          what operations write ─────┘
"""

import argparse
import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pykruise.kinds import crds_of
from pykruise.kube.documents import encode
from pykruise.kube.resources import Resource
from pykruise.sandbox.virtual_time import VirtualLoop
from simulation.kinds import GENERATORS, KINDS, generate
from simulation.operations import Operations
from simulation.script import Script

__all__ = ["fields_of", "never_set", "set_by"]

Object = Mapping[str, Any]

OF_TEMPLATES = (
    *("metadata.annotations", "metadata.finalizers", "metadata.labels"),
    *("spec.affinity", "spec.nodeSelector", "spec.tolerations", "spec.topologySpreadConstraints"),
    *("spec.containers", "spec.initContainers", "spec.readinessGates", "spec.terminationGracePeriodSeconds"),
    *("spec.containers[].env", "spec.containers[].image", "spec.containers[].resources"),
)
"""Fields of a pod template that decisions read. The schema leaves templates open."""


def fields_of(resource: Resource) -> set[str]:
    """Paths of all leaf fields of the spec; `[]` is each member of a list."""
    (crd,) = crds_of([resource])
    version = next(version for version in crd["spec"]["versions"] if version["storage"])
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return set(_fields(spec, ""))


def _fields(schema: Object, path: str) -> Iterator[str]:
    if "items" in schema and "properties" in schema["items"]:
        schema, path = schema["items"], f"{path}[]"
    if not schema.get("properties"):
        if path == "template" or path.endswith(".template"):
            yield from (f"{path}.{field}" for field in OF_TEMPLATES)
        else:
            yield path
    for name, inside in (schema.get("properties") or {}).items():
        yield from _fields(inside, f"{path}.{name}" if path else name)


def _paths(value: Any, path: str) -> Iterator[str]:
    """Every path of a document, also of nested fields."""
    if path and value is not None:
        yield path
    if isinstance(value, Mapping):
        for name, inside in value.items():
            yield from _paths(inside, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for inside in value:
            if isinstance(inside, Mapping):
                yield from _paths(inside, f"{path}[]")


class _Listed(msgspec.Struct):
    items: tuple[bytes, ...] = ()


class _Recorder:
    """A client that records writes and serves the objects of the start. There are no pods."""

    def __init__(self, objects: Mapping[Resource, Object]) -> None:
        self._objects = objects
        self.written: list[tuple[Resource, Object]] = []

    async def get(self, resource: Resource, *_key: str) -> bytes:
        result = self._objects[resource]
        return encode({**result, "metadata": {"uid": "u", **result["metadata"]}})

    async def list(self, *_where: str) -> _Listed:
        return _Listed()

    async def create(self, resource: Resource, _namespace: str, body: Object, **_options: Any) -> None:
        self.written.append((resource, body))

    async def patch(
        self, resource: Resource, _namespace: str, _name: str, body: Object, **_options: Any
    ) -> None:
        self.written.append((resource, body))

    async def delete(self, *_what: Any, **_options: Any) -> None:
        return


class _NoNodes:
    """Kubelets of a cluster in which nothing happens."""

    nodes = 4

    def stats(self) -> "_NoNodes":
        return self

    def __getattr__(self, _name: str) -> Any:
        return lambda *_args, **_options: None


def set_by(script: Script) -> dict[Resource, set[str]]:
    """Fields that a script sets in the specs of its objects: at the start, and by its operations."""
    kind = KINDS[script.kind]
    objects: dict[Resource, Object] = {kind.resource: script.object}
    if kind.beside is not None:
        objects[kind.beside] = script.beside
    client = _Recorder(objects)
    operations = Operations(
        client,  # type: ignore[arg-type]
        _NoNodes(),  # type: ignore[arg-type]
        resource=kind.resource,
        namespace="sim",
        name="web",
        first=dict(script.object),
        beside=None if kind.beside is None else (kind.beside, dict(script.beside)),
    )

    async def do_all() -> None:
        for operation in script.operations:
            await operations.do(operation)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(do_all())
    written = [*objects.items(), *client.written]
    result: dict[Resource, set[str]] = {resource: set() for resource in objects}
    for resource, document in written:
        if resource in result:
            result[resource].update(_paths(document.get("spec") or {}, ""))
    return result


def never_set(seeds: Iterable[int]) -> dict[Resource, list[str]]:
    """Resource → fields that no script of these seeds sets, for all its generators."""
    result: dict[Resource, set[str]] = {}
    for seed in seeds:
        for generator in GENERATORS:
            for resource, paths in set_by(generate(seed, generator)).items():
                result.setdefault(resource, set()).update(paths)
    return {resource: sorted(fields_of(resource) - paths) for resource, paths in result.items()}


def main() -> int:
    """Exit code 0: every field is set."""
    parser = argparse.ArgumentParser(prog="simulation.fields", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="of each generator")
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    left = never_set(range(arguments.first, arguments.first + arguments.seeds))
    for resource, fields in sorted(left.items(), key=lambda item: item[0].kind):
        print(
            f"{resource.kind}: {len(fields_of(resource)) - len(fields)} fields are set, {len(fields)} never are"
        )
        print(*(f"  {field}" for field in fields), sep="\n")
    return 1 if any(left.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
