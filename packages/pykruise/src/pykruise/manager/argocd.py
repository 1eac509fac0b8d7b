"""What Argo CD has to know of the kinds: how an object is, what can be done about it, what it need not compare.

TABLE, one row a kind ──▶ config_map() ──▶ the keys of argocd-cm: health, actions, ignored updates

Pure. Argo CD's own scripts for these kinds mostly show an ordinary rollout as Degraded or Suspended, which fails or
holds a sync, and there are none for most kinds. Scripts are Lua 5.1 (gopher-lua) without the libraries `string` and
`math`, which Argo CD does not open. An error in one is an error of the whole Application: each value is looked at
before it is used, so a status by OpenKruise's manager, or none at all, does no harm. Of statuses with the condition
Ready the conditions decide (runtime/kstatus.py); of others the counts.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
import yaml

from pykruise.kinds import kinds
from pykruise.kube.documents import Document
from pykruise.pods.reasons import Code

__all__ = ["TABLE", "Row", "actions_of", "config_map", "config_map_text", "document_text", "health_of"]

_BLOCK: Final = "spec.updateStrategy.rollingUpdate"


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Where a workload says how far it is; dotted paths. Counts that are absent are 0."""

    wanted: str
    updated: str
    available: str
    paused: str = ""
    partition: str = ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One kind. `health`: Lua that returns `{status, message}`, after `_FRAME` has looked at what all kinds share."""

    health: str
    is_observed: bool = True
    """Its status says which generation it is about; without a status nothing has looked at it yet."""
    paused: str = ""
    """The field that pauses it."""
    scales: bool = False
    restarts: bool = False


# ── health ───────────────────────────────────────────────────────────────────

_FRAME: Final = """\
local function get(...)
  local at = obj
  for _, name in ipairs({...}) do
    if type(at) ~= "table" then return nil end
    at = at[name]
  end
  return at
end
local function count(...) return tonumber(get(...)) or 0 end
local function is(status, message) return {status = status, message = message or ""} end
if get("metadata.deletionTimestamp") ~= nil then return is("Progressing", "it is being deleted") end
"""

_OBSERVED: Final = """\
local seen, generation = get("status.observedGeneration"), get("metadata.generation")
if seen == nil or (generation ~= nil and seen ~= generation) then
  return is("Progressing", "the latest change has not been taken up yet")
end
"""

_HELD: Final = (Code.PAUSED, Code.PARTITION, Code.PARTITIONED_SCALING, Code.NODE_SELECTOR)
"""Reasons of Ready with which a rollout goes on only when a person says so."""

_CONDITIONS: Final = """\
local said = {}
for _, condition in ipairs(get("status.conditions") or {}) do said[condition.type] = condition end
if said.Ready ~= nil then
  local message = said.Ready.message or ""
  if said.Stalled ~= nil and said.Stalled.status == "True" then return is("Degraded", message) end
  if said.Ready.status ~= "True" then return is("Progressing", message) end
  local held = { HELD }
  if held[said.Ready.reason] then return is("Suspended", message) end
  return is("Healthy", message)
end
"""

_COUNTS: Final = """\
local wanted, updated, available = WANTED, count("UPDATED"), count("AVAILABLE")
local progress = updated .. " of " .. wanted .. " updated, " .. available .. " available"
local function kept(partition)
  if type(partition) ~= "string" then return tonumber(partition) or 0 end
  for percent = 0, 100 do
    if partition == percent .. "%" then
      local hundredths = wanted * percent
      return (hundredths + (100 - hundredths % 100) % 100) / 100
    end
  end
  return 0
end
if get("spec.updateStrategy.type") == "OnDelete" then updated = wanted end
if updated >= wanted and available >= wanted then return is("Healthy", progress) end
if PAUSED == true and available >= wanted then return is("Suspended", "updates are paused: " .. progress) end
local partition = kept(PARTITION)
if partition > 0 and updated >= wanted - partition and available >= wanted then
  return is("Suspended", "the partition is reached: " .. progress)
end
return is("Progressing", progress)
"""


def _rollout(counts: Counts) -> str:
    held = ", ".join(f"{code} = true" for code in _HELD)
    wanted = f'count("{counts.wanted}")'
    if counts.wanted == "spec.replicas":  # Kubernetes' default, where admission was not asked
        wanted = '(tonumber(get("spec.replicas")) or 1)'
    text = _CONDITIONS.replace("HELD", held) + _COUNTS
    for word, value in {
        "WANTED": wanted,
        "UPDATED": counts.updated,
        "AVAILABLE": counts.available,
        "PAUSED": f'get("{counts.paused}")' if counts.paused else "nil",
        "PARTITION": f'get("{counts.partition}")' if counts.partition else "nil",
    }.items():
        text = text.replace(word, value)
    return text


_OBSERVED_IS_FINE: Final = 'return is("Healthy")\n'

_BROADCAST_JOB: Final = """\
local phase = get("status.phase")
local ended = count("status.succeeded") .. " of " .. count("status.desired") .. " succeeded, "
  .. count("status.failed") .. " failed"
if phase == "completed" then return is("Healthy", ended) end
if phase == "failed" then return is("Degraded", ended) end
if phase == "paused" then return is("Suspended", ended) end
return is("Progressing", ended)
"""

_CRON_JOB: Final = """\
if get("spec.paused") == true then return is("Suspended", "the schedule is paused") end
local last = get("status.lastScheduleTime")
if last == nil then return is("Healthy", "it has not run yet") end
return is("Healthy", "it ran last at " .. last)
"""

_PULL_JOB: Final = """\
local done = count("status.succeeded") .. " of " .. count("status.desired") .. " NODES"
if get("status.startTime") == nil then return is("Progressing", "it has not begun") end
local failed = FAILED
if get("spec.completionPolicy.type") == "Never" and failed == 0 then return is("Healthy", done) end
if get("status.completionTime") == nil then return is("Progressing", done) end
if failed > 0 then return is("Degraded", done .. ", " .. failed .. " failed") end
return is("Healthy", done)
"""


def _pull_job(what: str, failed: str) -> str:
    return _PULL_JOB.replace("NODES", what).replace("FAILED", failed)


_EPHEMERAL_JOB: Final = """\
local phase = get("status.phase")
local done = count("status.succeeded") .. " of " .. count("status.match") .. " pods"
if phase == "Succeeded" then return is("Healthy", done) end
if phase == "Failed" or phase == "Error" then return is("Degraded", done) end
if phase == "Paused" then return is("Suspended", done) end
return is("Progressing", done)
"""

_RECREATE_REQUEST: Final = """\
local phase, message = get("status.phase"), get("status.message") or ""
if phase == "Succeeded" then return is("Healthy", message) end
if phase == "Failed" then return is("Degraded", message) end
if phase ~= "Completed" then return is("Progressing", message) end
for _, state in ipairs(get("status.containerRecreateStates") or {}) do
  if state.phase == "Failed" then return is("Degraded", message) end
end
return is("Healthy", message)
"""

_NODE_IMAGE: Final = """\
if count("status.pulling") > 0 then return is("Progressing", count("status.pulling") .. " images are being pulled") end
if count("status.failed") > 0 then return is("Degraded", count("status.failed") .. " images could not be pulled") end
return is("Healthy")
"""

_DISTRIBUTION: Final = """\
local done = count("status.succeeded") .. " of " .. count("status.desired") .. " namespaces"
if count("status.failed") > 0 then return is("Degraded", done) end
if count("status.succeeded") < count("status.desired") then return is("Progressing", done) end
return is("Healthy", done)
"""

_BUDGET: Final = """\
local has = count("status.currentAvailable") .. " of " .. count("status.desiredAvailable") .. " pods available"
if count("status.currentAvailable") < count("status.desiredAvailable") then return is("Progressing", has) end
return is("Healthy", has .. ", " .. count("status.unavailableAllowed") .. " may become unavailable")
"""

_CLONE_SET: Final = Counts(
    wanted="spec.replicas",
    updated="status.updatedReplicas",
    available="status.availableReplicas",
    paused=f"{_BLOCK}.paused",
    partition=f"{_BLOCK}.partition",
)

TABLE: Final[Mapping[str, Row]] = {
    "CloneSet": Row(health=_rollout(_CLONE_SET), paused=f"{_BLOCK}.paused", scales=True, restarts=True),
    "StatefulSet": Row(health=_rollout(_CLONE_SET), paused=f"{_BLOCK}.paused", scales=True, restarts=True),
    "DaemonSet": Row(
        health=_rollout(
            Counts(
                wanted="status.desiredNumberScheduled",
                updated="status.updatedNumberScheduled",
                available="status.numberAvailable",
                paused=f"{_BLOCK}.paused",
                partition=f"{_BLOCK}.partition",
            )
        ),
        paused=f"{_BLOCK}.paused",
        restarts=True,
    ),
    "UnitedDeployment": Row(
        health=_rollout(
            Counts(
                wanted="spec.replicas",
                updated="status.updatedReplicas",
                available="status.readyReplicas",
            )
        ),
        scales=True,
    ),
    "SidecarSet": Row(
        health=_rollout(
            Counts(
                wanted="status.matchedPods",
                updated="status.updatedPods",
                available="status.readyPods",
                paused="spec.updateStrategy.paused",
                partition="spec.updateStrategy.partition",
            )
        ),
        paused="spec.updateStrategy.paused",
    ),
    "BroadcastJob": Row(health=_BROADCAST_JOB, is_observed=False, paused="spec.paused"),
    "AdvancedCronJob": Row(health=_CRON_JOB, is_observed=False, paused="spec.paused"),
    "ImagePullJob": Row(health=_pull_job("nodes", 'count("status.failed")'), is_observed=False),
    "ImageListPullJob": Row(
        health=_pull_job("images", '#(get("status.failedImageStatuses") or {})'), is_observed=False
    ),
    "EphemeralJob": Row(health=_EPHEMERAL_JOB, is_observed=False, paused="spec.paused"),
    "ContainerRecreateRequest": Row(health=_RECREATE_REQUEST, is_observed=False),
    "NodeImage": Row(health=_NODE_IMAGE, is_observed=False),
    "NodePodProbe": Row(health=_OBSERVED_IS_FINE, is_observed=False),
    "ResourceDistribution": Row(health=_DISTRIBUTION),
    "WorkloadSpread": Row(health=_OBSERVED_IS_FINE),
    "PersistentPodState": Row(health=_OBSERVED_IS_FINE),
    "PodProbeMarker": Row(health=_OBSERVED_IS_FINE),
    "PodUnavailableBudget": Row(health=_BUDGET),
}
"""Every kind."""


def health_of(kind: str) -> str:
    """The health script of a kind."""
    row = TABLE[kind]
    return _spelled(_FRAME + (_OBSERVED if row.is_observed else "") + row.health)


def _spelled(script: str) -> str:
    """With paths as names one by one: scripts cannot take strings apart."""
    return re.sub(
        r'\b(get|count)\("([\w.]+)"\)',
        lambda found: f"{found[1]}({_names(found[2])})",
        script,
    )


def _names(path: str) -> str:
    return ", ".join(f'"{name}"' for name in path.split("."))


# ── actions ──────────────────────────────────────────────────────────────────

_SET: Final = """\
local function set(value, ...)
  local at, names = obj, {...}
  for number = 1, #names - 1 do
    local name = names[number]
    if type(at[name]) ~= "table" then at[name] = {} end
    at = at[name]
  end
  at[names[#names]] = value
end
"""

_SCALE: Final = """\
local wanted = tonumber(actionParams["scale"])
if wanted == nil or wanted < 0 or wanted % 1 ~= 0 then
  error("not a number of pods: " .. tostring(actionParams["scale"]), 0)
end
obj.spec.replicas = wanted
return obj
"""

_RESTART: Final = """\
local os = require("os")
local now = os.date("!%Y-%m-%dT%H:%M:%SZ")
for _, container in ipairs(obj.spec.template.spec.containers) do
  local env, is_there = container.env or {}, false
  for _, one in ipairs(env) do
    if one.name == "RESTARTED_AT" then
      one.value, one.valueFrom, is_there = now, nil, true
    end
  end
  if not is_there then env[#env + 1] = {name = "RESTARTED_AT", value = now} end
  container.env = env
end
return obj
"""
"""A changed environment variable has all pods recreated, as `kubectl kruise rollout restart` does it."""


def _pause(field: str, paused: bool) -> str:
    return f"{_SET}set({str(paused).lower()}, {_names(field)})\nreturn obj\n"


def _discovery(row: Row) -> str:
    lines = ["local actions = {}"]
    if row.restarts:
        lines.append('actions["restart"] = {}')
    if row.scales:
        lines.append(
            'actions["scale"] = {params = {{name = "scale", value = "", format = "^[0-9]+$",'
            " default = tostring(obj.spec.replicas or 1)}}}"
        )
    if row.paused:
        lines += [
            _FRAME.partition("local function count")[0].rstrip(),
            f'local is_paused = get("{row.paused}") == true',
            'actions["pause"] = {disabled = is_paused}',
            'actions["resume"] = {disabled = not is_paused}',
        ]
    return _spelled("\n".join([*lines, "return actions", ""]))


def actions_of(kind: str) -> Document | None:
    """Which actions a kind has, and the script of each; None: it has none."""
    row = TABLE[kind]
    scripts: dict[str, str] = {}
    if row.restarts:
        scripts["restart"] = _RESTART
    if row.scales:
        scripts["scale"] = _SCALE
    if row.paused:
        scripts |= {"pause": _pause(row.paused, True), "resume": _pause(row.paused, False)}
    if not scripts:
        return None
    return {
        "discovery.lua": _discovery(row),
        "definitions": [{"name": name, "action.lua": script} for name, script in scripts.items()],
    }


# ── the ConfigMap ────────────────────────────────────────────────────────────


def config_map(*, namespace: str = "argocd", name: str = "argocd-cm") -> Document:
    """Our part of Argo CD's settings; applied server-side it leaves all other keys alone."""
    data: dict[str, str] = {}
    for kind in kinds():
        row = TABLE.get(kind.resource.kind)
        if row is None or not kind.versions:
            continue
        about = f"{kind.resource.group}_{kind.resource.kind}"
        data[f"resource.customizations.health.{about}"] = health_of(kind.resource.kind)
        actions = actions_of(kind.resource.kind)
        if actions is not None:
            data[f"resource.customizations.actions.{about}"] = document_text(actions)
        # A status changes with every pod of a rollout; nothing of it is in Git. Health that changes still counts.
        data[f"resource.customizations.ignoreResourceUpdates.{about}"] = document_text(
            {"jsonPointers": ["/status"]}
        )
        data[f"resource.customizations.ignoreDifferences.{about}"] = document_text(
            {"jsonPointers": ["/status"]}
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "argocd-cm", "app.kubernetes.io/part-of": "argocd"},
        },
        "data": dict(sorted(data.items())),
    }


class _Dumper(yaml.SafeDumper):
    """Scripts as blocks, which people can read."""


def _as_block(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _as_block)


def document_text(document: Document) -> str:
    """A document as YAML, scripts as blocks."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)


def config_map_text(*, namespace: str = "argocd", name: str = "argocd-cm") -> str:
    """The ConfigMap as YAML."""
    return document_text(config_map(namespace=namespace, name=name))
