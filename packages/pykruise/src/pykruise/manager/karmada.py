"""Interpreters of the kinds for Karmada: replicas, health, and one status merged from the statuses of all clusters.

Kind.shown ──▶ build_interpreters() ──▶ ResourceInterpreterCustomizations, one per kind and version

Pure. Karmada has built-in interpreters for some kinds, only in the storage versions of OpenKruise's releases.
The interpreters of this module cover every served version, and kinds that Karmada does not know. The scripts are Lua
5.1 (gopher-lua). The scripts for Argo CD have the same health rules (lua_health.py), so all tools show the same health.
A paused object is healthy, because its user requested the pause.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pykruise.kinds import list_kinds, list_marked_schemas
from pykruise.kube.documents import Document
from pykruise.manager.lua_health import build_health_script
from pykruise.plans.kind import Kind
from pykruise.plans.progress import Count

__all__ = ["build_interpreters"]

_HEALTH: Final = """\
function InterpretHealth(observedObj)
  local obj = observedObj
  local function health()
{HEALTH}
  end
  local status = health().status
  return status == "Healthy" or status == "Suspended"
end
"""

_REPLICAS: Final = """\
local kube = require("kube")
function GetReplicas(obj)
  local replicas = 1
  if type(obj.spec.replicas) == "number" then replicas = obj.spec.replicas end
  return replicas, kube.accuratePodRequirements(obj.spec.template)
end
"""

_REVISION: Final = """\
function ReviseReplica(obj, desiredReplica)
  obj.spec.replicas = desiredReplica
  return obj
end
"""

_REFLECTION: Final = """\
function ReflectStatus(observedObj)
  local status = {}
  for name, value in pairs(observedObj.status or {}) do status[name] = value end
  status.generation = observedObj.metadata.generation
  return status
end
"""

_AGGREGATION: Final = """\
function AggregateStatus(desiredObj, statusItems)
  local all, observed = {}, true
  for _, name in ipairs({COUNTS}) do all[name] = 0 end
  for _, item in ipairs(statusItems or {}) do
    local status = item.status
    if type(status) ~= "table" then
      observed = false
    else
      for _, name in ipairs({COUNTS}) do
        if type(status[name]) == "number" then all[name] = all[name] + status[name] end
      end
      for _, name in ipairs({TEXTS}) do
        if all[name] == nil then all[name] = status[name] end
      end
      if status.generation ~= status.observedGeneration then observed = false end
    end
  end
  local before = desiredObj.status or {}
  all.observedGeneration = before.observedGeneration
  if observed then all.observedGeneration = desiredObj.metadata.generation end
  desiredObj.status = all
  return desiredObj
end
"""

_TEXTS: Final = ("labelSelector", "currentRevision", "updateRevision")
_NOT_SUMMED: Final = "observedGeneration"


def build_interpreters() -> list[Document]:
    """Return an interpreter for each kind whose metrics contain counts of the status, in each of its versions."""
    versions: dict[str, list[str]] = {}
    for resource, _ in list_marked_schemas():
        versions.setdefault(resource.kind, []).append(resource.version)
    return [
        _build_interpreter(kind, version)
        for kind in list_kinds()
        for version in versions.get(kind.resource.kind, ())
        if _list_counts(kind)
    ]


def _build_interpreter(kind: Kind, version: str) -> Document:
    resource = kind.resource
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": f"pykruise-{version}-{resource.kind.lower()}"},
        "spec": {
            "target": {"apiVersion": f"{resource.group}/{version}", "kind": resource.kind},
            "customizations": {name: {"luaScript": script} for name, script in _build_scripts(kind)},
        },
    }


def _build_scripts(kind: Kind) -> Iterator[tuple[str, str]]:
    assert kind.shown is not None
    yield "healthInterpretation", _HEALTH.replace("{HEALTH}", build_health_script(kind.shown).rstrip())
    if kind.shown.verbs.scales and kind.shown.templates == ("spec.template",):
        yield "replicaResource", _REPLICAS
        yield "replicaRevision", _REVISION
    yield "statusReflection", _REFLECTION
    script = _AGGREGATION.replace("{COUNTS}", _format_table(_list_counts(kind)))
    yield "statusAggregation", script.replace("{TEXTS}", _format_table(_TEXTS))


def _list_counts(kind: Kind) -> Sequence[str]:
    """Return the fields of the status that count pods or nodes. The counts of several clusters are added."""
    if kind.shown is None or kind.shown.progress is None or kind.shown.metrics is None:
        return ()
    paths = [number.path for number in kind.shown.metrics.counts.values() if isinstance(number, Count)]
    names = [path.removeprefix("status.") for path in paths if path.startswith("status.")]
    return sorted({name for name in names if "." not in name and name != _NOT_SUMMED})


def _format_table(names: Sequence[str]) -> str:
    return "{" + ", ".join(f'"{name}"' for name in names) + "}"
