"""A random script: a ResourceDistribution, namespaces that are created, changed and deleted, and changes of its copies.

seed ──▶ generate() ──▶ Script
"""

import random
from collections.abc import Callable
from typing import Any

from simulation.chance import Chooser, kruise_object, scripted
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Operation, Script

__all__ = ["generate"]

_PATHS = ("/secrets", "/configmaps", "/namespaces", "/resourcedistributions", "/resourcedistributions", "")
_WATCHES = ("/secrets", "/configmaps", "/namespaces", "/namespaces", "/resourcedistributions")
_NAMESPACES = tuple(f"team-{number}" for number in range(12))
_SYSTEM = ("default", "kube-system", "kube-public")
_TYPES = ("Opaque", "kubernetes.io/basic-auth")


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"resourcedistribution-{seed}")
    resource = _resource(rng)
    length_s = rng.choice((5.0, 20.0, 60.0))
    there = rng.choice((0, 2, 3, 5, 12))
    operations = _operations(rng, resource, length_s)
    operations += [
        Operation(0.0, "create_namespace", {"name": name, **_labels(rng)}) for name in _NAMESPACES[:there]
    ]
    if seed % 8 == 7:
        operations += _overtaken(random.Random(f"overtaken-{seed}"))
    faults = faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES)
    document = kruise_object("ResourceDistribution", {"resource": resource, "targets": _said(_targets(rng))})
    return scripted(
        rng, seed, operations=operations, faults=faults, kind="resourcedistribution", object=document, nodes=0
    )


def _resource(rng: random.Random) -> dict[str, Any]:
    kind = rng.choice(("Secret", "ConfigMap"))
    metadata: dict[str, Any] = {"name": "copied"}
    result: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": metadata,
        "data": _said(_data(rng)),
    }
    if rng.random() < 0.2:
        metadata |= {"labels": {"from": "source"}, "annotations": {"from": "source"}}
    if rng.random() < 0.1:
        metadata["namespace"] = "elsewhere"  # has no effect
    if rng.random() < 0.1:
        result["immutable"] = True
    return result | _further(rng, kind)


def _further(rng: random.Random, kind: str) -> dict[str, Any]:
    """Fields that only ConfigMaps, or only Secrets, have."""
    if kind == "ConfigMap":
        return {"binaryData": {"c": "AA\nAA\n"}} if rng.random() < 0.2 else {}
    return rng.choice(({}, {}, {"stringData": {"text": "plain", "none": None}}, {"type": rng.choice(_TYPES)}))


def _data(rng: random.Random) -> dict[str, str | None]:
    """Bytes in base64, and for a ConfigMap plain text."""
    return {"a": rng.choice(("QQ==", "Qg==", "Qw==")), "b": rng.choice((None, "QQ=="))}


def _said(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value is not None}


def _labels(rng: random.Random) -> dict[str, str]:
    return rng.choice(({}, {"team": "a"}, {"team": "a"}, {"team": "b"}))


def _targets(rng: random.Random) -> dict[str, Any]:
    """Targets, also as a merge patch, which removes all other fields."""
    result: dict[str, Any] = dict.fromkeys(("allNamespaces", "includedNamespaces", "namespaceSelector"))
    names = _NAMESPACES[:6] + _SYSTEM
    ways = rng.choice((("all",), ("names",), ("labels",), ("labels",), ("names", "labels"), ()))
    if "all" in ways:
        result["allNamespaces"] = True
    if "labels" in ways:
        targets = {"key": "team", "operator": "In", "values": ["a", "c"]}
        result["namespaceSelector"] = rng.choice(
            ({"matchLabels": {"team": "a"}}, {"matchExpressions": [targets]})
        )
    included = rng.sample(names, rng.choice((1, 3))) if "names" in ways else []
    excluded = set(rng.sample(names, 2) if rng.random() < 0.3 else []) - set(included)
    if included:
        result["includedNamespaces"] = {"list": [{"name": name} for name in included]}
    result["excludedNamespaces"] = {"list": [{"name": name} for name in sorted(excluded)]}
    return result


def _operations(rng: random.Random, resource: dict[str, Any], length_s: float) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add
    choices: list[Callable[[], object]] = [
        lambda: add("create_namespace", name=rng.choice(_NAMESPACES), **_labels(rng)),
        lambda: add("create_namespace", name=rng.choice(_NAMESPACES), **_labels(rng)),
        lambda: add("delete_namespace", name=rng.choice(_NAMESPACES[:5])),
        lambda: add("label_namespace", name=rng.choice(_NAMESPACES[:5]), team=rng.choice(("a", "b", None))),
        lambda: add("label_namespace", name=rng.choice(_NAMESPACES[:5]), team=rng.choice(("a", "b", None))),
        lambda: add("spec", targets=_targets(rng)),
        lambda: add("spec", targets=_targets(rng)),
        lambda: add("spec", resource={"data": _data(rng)}),
        lambda: add("spec", resource={"data": _data(rng)}),
        lambda: add("spec", resource=rng.choice(({"immutable": True}, _further(rng, resource["kind"])))),
        lambda: add("place_object", namespace=rng.choice(_NAMESPACES[:5]), data={"a": "QQ=="}),
        lambda: add("write_copy", number=rng.randrange(8), data=_data(rng)),
        lambda: add("write_copy", number=rng.randrange(8), metadata={"labels": {"mine": "yes"}}),
        lambda: add("write_copy", number=rng.randrange(8), immutable=True),
        lambda: add("delete_copy", number=rng.randrange(8)),
        lambda: add("delete_copy", number=rng.randrange(8)),
        lambda: add("disown_copy", number=rng.randrange(8)),
        lambda: add("hold_copy", number=rng.randrange(8)),
        lambda: add("annotate", value=rng.randrange(9)),
    ]
    chooser.some_of(choices)
    for operation in tuple(chooser.found):  # the namespace of a copy that is held cannot go
        if operation.do == "hold_copy" and rng.random() < 0.5:
            name, at = rng.choice(_NAMESPACES[:5]), round(operation.at + rng.uniform(0.1, 5), 2)
            chooser.found.append(Operation(at, "delete_namespace", {"name": name}))
        elif operation.do == "delete_namespace" and rng.random() < 0.5:
            at = round(operation.at + rng.uniform(0.1, 20), 2)
            chooser.found.append(Operation(at, "create_namespace", operation.args | _labels(rng)))
    chooser.maybe_deleted(0.1)
    return chooser.found


def _overtaken(rng: random.Random) -> list[Operation]:
    """A user changes a copy, and keeps it for himself while the manager is about to write it."""
    at, number = round(rng.uniform(4, 10), 2), rng.randrange(3)
    later = round(at + rng.choice((0.02, 0.1, 0.2, 0.3)), 2)
    return [
        Operation(at, "write_copy", {"number": number, "data": {"a": "Wg=="}}),
        Operation(later, "disown_copy", {"number": number}),
    ]
