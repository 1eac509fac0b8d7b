"""Environment variables from a pod's labels and annotations, and the hash by which agents and managers compare them.

env of a container ──▶ parse_env_sources() ──▶ EnvSource …, values ──▶ compute_environment_hash()
    ──▶ 86995377, in annotations

Pure. Hashes are computed as in OpenKruise's agent, because they must equal those that another agent or manager
recorded.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from pykruise.kube.values.go_text import encode_go_json
from pykruise.kube.values.hashing import hash_bytes

_EXCLUDED_VARIABLES: Final = frozenset({"SIDECARSET_VERSION", "SIDECARSET_VERSION_ALT"})
"""Variables that SidecarSets add to containers; their values come from annotations."""

_SOURCES: Final = {"metadata.labels": "labels", "metadata.annotations": "annotations"}


class EnvSource(msgspec.Struct, frozen=True, gc=False):
    """An environment variable whose value is one label or annotation of the pod."""

    variable: str
    field: str
    """`labels` or `annotations`."""
    key: str


def parse_env_source(variable: str, field_path: str) -> EnvSource | None:
    """Return the label or annotation that a field path names, as `metadata.labels['app']` does; None for other paths.

    Return None also for a path of all labels or annotations, and for the variables that SidecarSets set.
    """
    if variable in _EXCLUDED_VARIABLES or not field_path.endswith("']"):
        return None
    path, bracket, key = field_path[:-2].partition("['")
    field = _SOURCES.get(path)
    return EnvSource(variable, field, key) if bracket and field else None


def parse_env_sources(field_paths: Iterable[tuple[str, str]]) -> tuple[EnvSource, ...]:
    """Return the sources of variables (name, field path), sorted by variable; equal names keep their order."""
    result = (parse_env_source(variable, path) for variable, path in field_paths)
    return tuple(
        sorted(
            (env_source for env_source in result if env_source is not None),
            key=lambda env_source: env_source.variable,
        )
    )


def compute_environment_hash(sources: Iterable[EnvSource], value_of: Callable[[EnvSource], str]) -> int:
    """Return the agent's hash of these variables and their values; 86995377 if there are no variables."""
    entries: list[dict[str, str]] = []
    for source in sources:
        value = value_of(source)
        entries.append({"name": source.variable, "value": value} if value else {"name": source.variable})
    return hash_bytes(encode_go_json(entries or None).encode())
