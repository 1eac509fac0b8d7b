"""Settings of Argo CD for the kinds: health, actions, and fields whose changes Argo CD can ignore.

Kind.shown ──▶ build_config_map() ──▶ the keys of argocd-cm: health, actions, ignored updates

Pure. Argo CD contains scripts for a few of these kinds. Most of these scripts report an ordinary rollout as Degraded or
Suspended, so a sync fails or is delayed. The scripts here report the phase that all other displays of pykruise show
(lua_health.py).
"""

from typing import Any, Final

from pykruise.kinds import list_kinds
from pykruise.kube.documents import Document
from pykruise.kube.yaml_documents import KubernetesDumper, format_yaml
from pykruise.manager.lua_health import AT, build_health_script, format_path_table
from pykruise.plans.shown import Field, Shown

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
local function restart(template)
  for _, container in ipairs(template.spec.containers) do
    local env, is_there = container.env or {}, false
    for _, one in ipairs(env) do
      if one.name == "RESTARTED_AT" then
        one.value, one.valueFrom, is_there = now, nil, true
      end
    end
    if not is_there then env[#env + 1] = {name = "RESTARTED_AT", value = now} end
    container.env = env
  end
end
for _, path in ipairs({TEMPLATES}) do
  local template = at(path)
  if type(template) == "table" then restart(template) end
end
return obj
"""
"""Script that changes an environment variable, so that all pods are recreated. `kubectl kruise rollout restart` does
the same.
"""


def _restart_script(shown: Shown) -> str:
    return AT + _RESTART.replace("TEMPLATES", ", ".join(format_path_table(path) for path in shown.templates))


def _pause_script(field: Field, *, paused: bool) -> str:
    names = ", ".join(f'"{name}"' for name in field.hub.split("."))
    return f"{_SET}set({str(paused).lower()}, {names})\nreturn obj\n"


def _build_discovery_script(shown: Shown) -> str:
    lines = ["local actions = {}"]
    if shown.verbs.restart == "env":
        lines.append('actions["restart"] = {}')
    if shown.verbs.scales:
        lines.append(
            'actions["scale"] = {params = {{name = "scale", value = "", format = "^[0-9]+$",'
            " default = tostring(obj.spec.replicas or 1)}}}"
        )
    if (paused := shown.fields.get("paused")) is not None:
        lines += [
            AT.rstrip(),
            f"local is_paused = at({format_path_table(paused.hub)}) == true",
            'actions["pause"] = {disabled = is_paused}',
            'actions["resume"] = {disabled = not is_paused}',
        ]
    return "\n".join([*lines, "return actions", ""])


def actions_of(shown: Shown) -> Document | None:
    """Return the actions of a kind with their scripts; None: the kind has none."""
    scripts: dict[str, str] = {}
    if shown.verbs.restart == "env":
        scripts["restart"] = _restart_script(shown)
    if shown.verbs.scales:
        scripts["scale"] = _SCALE
    if (paused := shown.fields.get("paused")) is not None:
        scripts |= {
            "pause": _pause_script(paused, paused=True),
            "resume": _pause_script(paused, paused=False),
        }
    if not scripts:
        return None
    return {
        "discovery.lua": _build_discovery_script(shown),
        "definitions": [{"name": name, "action.lua": script} for name, script in scripts.items()],
    }


# ── the ConfigMap ────────────────────────────────────────────────────────────


def build_config_map(*, namespace: str = "argocd", name: str = "argocd-cm") -> Document:
    """Return the part of Argo CD's settings for these kinds. Server-side apply does not change the other keys."""
    data: dict[str, str] = {}
    for shown in (kind.shown for kind in list_kinds()):
        if shown is None or shown.progress is None:
            continue
        about = f"{shown.group}_{shown.kind}"
        data[f"resource.customizations.health.{about}"] = build_health_script(shown)
        actions = actions_of(shown)
        if actions is not None:
            data[f"resource.customizations.actions.{about}"] = format_document(actions)
        # The status changes with every pod of a rollout, and Git contains no status. Changes of the health still reach
        # Argo CD.
        data[f"resource.customizations.ignoreResourceUpdates.{about}"] = format_document(
            {"jsonPointers": ["/status"]}
        )
        data[f"resource.customizations.ignoreDifferences.{about}"] = format_document(
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


class _Dumper(KubernetesDumper):
    """Writes scripts as YAML block texts, which people can read."""


def _as_block(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _as_block)


def format_document(document: Document) -> str:
    """Return a document as YAML, with scripts as block texts."""
    return format_yaml(document, dumper=_Dumper)


def format_config_map(*, namespace: str = "argocd", name: str = "argocd-cm") -> str:
    """Return the ConfigMap as YAML."""
    return format_document(build_config_map(namespace=namespace, name=name))
