"""Progress of an object (plans/progress.py) as a script for Argo CD, translated to Lua from the same declaration.

Shown.progress ──▶ build_health_script() ──▶ Lua that returns {status, message}

Pure. Scripts are Lua 5.1 (gopher-lua) without the libraries `string` and `math`, which Argo CD does not provide. An
error in a script is an error of the whole Application, so each value's type is checked before its use. A status that
OpenKruise's manager wrote, or a missing status, causes no error.
"""

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from pykruise.plans.progress import (
    BY_HAND,
    OPEN,
    Condition,
    Count,
    Difference,
    Differs,
    Has,
    Is,
    IsTrue,
    Items,
    Less,
    Number,
    Phase,
    PhaseRules,
    Positive,
    ProgressCounts,
    Rollout,
    Sum,
    Zero,
)
from pykruise.plans.shown import Field, Shown
from pykruise.pods.reasons import DEADLINE_EXCEEDED, HELD, NEEDS_A_PERSON, NEVER_OBSERVED

STATUSES: Final[Mapping[Phase, str]] = {
    Phase.PROGRESSING: "Progressing",
    Phase.HEALTHY: "Healthy",
    Phase.DEGRADED: "Degraded",
    Phase.PAUSED: "Suspended",
    Phase.FAILED: "Degraded",
    Phase.COMPLETED: "Healthy",
}
"""Argo CD's health status of each phase."""

AT: Final = """\
local function at(path)
  local value = obj
  for _, name in ipairs(path) do
    if type(value) ~= "table" then return nil end
    value = value[name]
  end
  return value
end
"""
"""Lua function that returns the value at a path."""

_READERS: Final = """\
local function list(path)
  local found = at(path)
  return type(found) == "table" and found or {}
end
local function number(path, default)
  local found = at(path)
  return type(found) == "number" and found or default
end
local function text(path)
  local found = at(path)
  return (type(found) == "string" or type(found) == "number") and tostring(found) or ""
end
local function items(path, field, value)
  local found = 0
  for _, item in pairs(list(path)) do
    if field == nil or (type(item) == "table" and item[field] == value) then found = found + 1 end
  end
  return found
end
local function sum(path)
  local found = 0
  for _, value in pairs(list(path)) do
    if type(value) == "number" then found = found + value end
  end
  return found
end
local function is(status, message) return {status = status, message = message or ""} end
if at({"metadata", "deletionTimestamp"}) ~= nil then return is("Progressing", "it is being deleted") end
"""

_OBSERVED: Final = """\
local seen, generation = at({"status", "observedGeneration"}), at({"metadata", "generation"})
if type(seen) ~= "number" or (type(generation) == "number" and seen < generation) then
  return is("Progressing", "the manager has not processed the latest change yet")
end
"""

_CONDITIONS: Final = """\
local conditions = {}
for _, condition in ipairs(list({"status", "conditions"})) do
  if type(condition) == "table" and condition.type ~= nil then conditions[condition.type] = condition end
end
local ready, stalled, progressing = conditions.Ready, conditions.Stalled, conditions.Progressing
local waits, person, held, refused = nil, PERSON, HELD, REFUSED
local function holds(condition) return condition ~= nil and condition.status == "True" end
if holds(conditions.Waiting) then waits = conditions.Waiting end
if holds(stalled) and refused[stalled.reason] then return is("Degraded", stalled.message) end
"""

_NEEDED: Final = """\
local person, needed = PERSON, nil
for _, condition in ipairs(list({"status", "conditions"})) do
  if type(condition) == "table" and condition.type == "Ready" and condition.status == "False" then
    if person[condition.reason] then needed = condition.message or "" end
  end
end
"""
"""Lua code for a kind with rules: it finds the message of the condition Ready, if its reason needs a person's action;
otherwise nil.
"""

_DECIDING: Final = """\
if holds(stalled) then return is("Degraded", stalled.message) end
if ready == nil and progressing ~= nil and progressing.reason == "DEADLINE" then
  return is("Degraded", progressing.message)
end
local said = ready or waits
if said ~= nil and held[said.reason] then return is("Suspended", said.message) end
if holds(ready) then return is("Healthy", ready.message) end
if said ~= nil and person[said.reason] then return is("Degraded", said.message) end
if ready ~= nil and waits ~= nil and person[waits.reason] then return is("Degraded", waits.message) end
if ready ~= nil then return is("Progressing", ready.message) end
"""

_COUNTING: Final = """\
local function count_kept_by(partition)
  local kept = 0
  if type(partition) == "number" then kept = partition end
  if type(partition) == "string" then
    for percent = 0, 100 do
      if partition == percent .. "%" then
        local hundredths = wanted * percent
        kept = (hundredths + (100 - hundredths % 100) % 100) / 100
        if kept == wanted and wanted > 1 and percent < 100 then kept = wanted - 1 end
      end
    end
  end
  if kept < 0 then kept = 0 end
  if kept > wanted then kept = wanted end
  return kept
end
local kept, by_hand = count_kept_by(PARTITION), BY_HAND
local is_by_hand = by_hand[text({"spec", "updateStrategy", "type"})] == true
local target = wanted - kept
local is_updated = (is_by_hand or IS_UPDATED) and not (PENDING)
local serves = available >= wanted
if is_updated and serves and (is_by_hand or kept == 0 or updated >= wanted) then return is("Healthy", details) end
if serves and (PAUSED) then return is("Suspended", "updates are paused: " .. details) end
if is_updated and serves then return is("Suspended", "the partition is reached: " .. details) end
return is("Progressing", details)
"""


def build_health_script(shown: Shown) -> str:
    """Return the script of a kind that declares its progress."""
    observed = _OBSERVED if shown.is_observed else ""
    if isinstance(shown.progress, Rollout):
        return (
            AT
            + _READERS
            + _fill_in_sets(_CONDITIONS)
            + observed
            + _build_rollout_script(shown, shown.progress)
        )
    assert shown.progress is not None, f"{shown.kind} declares no progress"
    return AT + _READERS + observed + _fill_in_sets(_NEEDED) + _build_rules_script(shown.progress)


def _fill_in_sets(script: str) -> str:
    for word, codes in {"PERSON": NEEDS_A_PERSON, "HELD": HELD, "REFUSED": NEVER_OBSERVED}.items():
        script = script.replace(word, _set_of(codes))
    return script


def _set_of(words: Iterable[str]) -> str:
    return "{" + ", ".join(f"{word} = true" for word in sorted(words)) + "}"


def _build_rollout_script(shown: Shown, rollout: Rollout) -> str:
    counts = rollout.counts
    lines = [
        f"local {name} = {_build_number_script(number)}"
        for name in ("wanted", "updated", "updated_ready", "available")
        if (number := getattr(counts, name)) is not None
    ]
    has_ready = counts.updated_ready is not None
    words = {
        "PARTITION": _build_partition_script(shown.fields.get("partition"), rollout.partitions),
        "BY_HAND": _set_of(BY_HAND),
        "IS_UPDATED": "(updated >= target" + (" and updated_ready >= target)" if has_ready else ")"),
        "PENDING": _build_conjunction(rollout.pending) if rollout.pending else "false",
        "PAUSED": _build_paused_script(shown.fields.get("paused")),
    }
    script = _COUNTING
    for word, value in words.items():
        script = script.replace(word, value)
    details = f"local details = {_build_text_script(rollout.details, counts)}"
    return "\n".join([_DECIDING.replace("DEADLINE", DEADLINE_EXCEEDED).rstrip(), *lines, details, script])


def _build_partition_script(field: Field | None, partitions: Sum | None) -> str:
    if partitions is not None:
        return _build_number_script(partitions)
    return "nil" if field is None else " or ".join(_at_script(path) for path in _list_paths(field))


def _build_paused_script(field: Field | None) -> str:
    return (
        "false"
        if field is None
        else " or ".join(f"{_at_script(path)} == true" for path in _list_paths(field))
    )


def _list_paths(field: Field) -> list[str]:
    """Return the paths of both versions; a document has one of them."""
    return [path for path in (field.hub, field.v1alpha1) if path]


def _build_rules_script(rules: PhaseRules) -> str:
    lines = []
    for rule in rules.rules:
        details = rules.details if rule.details is None else rule.details
        answer = _answer_script(rule.phase, _build_text_script(details, rules.counts))
        lines.append(f"if {_build_conjunction(rule.all)} then return {answer} end")
    lines.append(f"return {_answer_script(rules.otherwise, _build_text_script(rules.details, rules.counts))}")
    return "\n".join([*lines, ""])


def _answer_script(phase: Phase, details: str) -> str:
    if phase not in OPEN:
        return f'is("{STATUSES[phase]}", {details})'
    return f'is(needed and "Degraded" or "{STATUSES[phase]}", needed or {details})'


def _build_text_script(details: str, counts: ProgressCounts) -> str:
    first, *parts = details.split("{")
    made = [f'"{first}"']
    for part in parts:
        name, _, rest = part.partition("}")
        number = getattr(counts, name, None) if "." not in name else None
        made.append(f"text({format_path_table(name)})" if number is None else _build_number_script(number))
        made.append(f'"{rest}"')
    return " .. ".join(text for text in made if text != '""') or '""'


def _build_conjunction(conditions: Iterable[Condition]) -> str:
    return " and ".join(_build_condition_script(condition) for condition in conditions)


def _build_condition_script(condition: Condition) -> str:
    match condition:
        case Is(path, values):
            return "(" + " or ".join(f'{_at_script(path)} == "{value}"' for value in values) + ")"
        case IsTrue(path):
            return f"{_at_script(path)} == true"
        case Has(path, is_there):
            is_missing = f'({_at_script(path)} == nil or {_at_script(path)} == "")'
            return f"not {is_missing}" if is_there else is_missing
        case Positive(number):
            return f"{_build_number_script(number)} > 0"
        case Zero(number):
            return f"{_build_number_script(number)} == 0"
        case Less(number, than):
            return f"{_build_number_script(number)} < {_build_number_script(than)}"
        case Differs(path, other):
            return f"{_at_script(path)} ~= {_at_script(other)}"
        case _:
            assert_never(condition)


def _build_number_script(number: Number) -> str:
    match number:
        case Count(path, default):
            return (
                f"number({format_path_table(path)}, "
                f"{default if isinstance(default, int) else _build_number_script(default)})"
            )
        case Items(path, field, value):
            return (
                f'items({format_path_table(path)}, "{field}", "{value}")'
                if field
                else f"items({format_path_table(path)})"
            )
        case Sum(path):
            return f"sum({format_path_table(path)})"
        case Difference(more, less):
            return f"({_build_number_script(more)} - {_build_number_script(less)})"
        case _:
            assert_never(number)


def _at_script(path: str) -> str:
    return f"at({format_path_table(path)})"


def format_path_table(path: str) -> str:
    """Return a dotted path as a table of names, because scripts cannot split strings."""
    return "{" + ", ".join(f'"{name}"' for name in path.split(".")) + "}"
