"""Command `set env`: sets, removes and lists variables of containers, and creates them from the keys of a Secret or
ConfigMap.

arguments ──▶ read_changes() ──▶ EnvironmentChanges
(variables, EnvironmentChanges) ──▶ change_env() (pure) ──▶ setting.apply()
"""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.kinds import pod_specs_of
from pykruise.cli.kubectl.resources import Error, Info, get
from pykruise.cli.kubectl.session import Session
from pykruise.cli.kubectl.setting import apply, find_objects, list_matching, specs_of
from pykruise.kube.documents import Document
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import CONFIG_MAPS, SECRETS

_NONE_NAMED: Final = "one or more resources must be specified as <resource> <name> or <resource>/<name>"


class EnvironmentChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of environment variables."""

    variables: tuple[Document, ...] = ()
    removed: frozenset[str] = frozenset()


def is_change(argument: str) -> bool:
    """Whether the argument is `KEY=VALUE`, `KEY-` or `-` (lines from stdin), and not a resource."""
    return "=" in argument or (argument.endswith("-") and "/" not in argument)


def read_lines(text: str) -> list[str]:
    """`KEY=VALUE` of each line without its comment. Spaces belong to the value; lines without `=` are skipped."""
    lines = (line.removesuffix("\r").partition("#")[0] for line in text.split("\n"))
    return [line for line in lines if "=" in line]


def read_changes(arguments: Sequence[str]) -> EnvironmentChanges:
    """Parse `A=1 B-`. Raises KubectlError."""
    variables: dict[str, str] = {}
    removed = set()
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if sign:
            variables[name] = value
        elif argument.endswith("-"):
            removed.add(argument[:-1])
        else:
            raise KubectlError(f"unknown argument: {argument}")
    if removed & variables.keys():
        raise KubectlError("can not both modify and remove the same environment variable in the same command")
    return EnvironmentChanges(
        variables=tuple({"name": name, "value": value} for name, value in variables.items()),
        removed=frozenset(removed),
    )


def add_prefix(changes: EnvironmentChanges, prefix: str) -> EnvironmentChanges:
    """Put the prefix before the names of all variables to set. As in kubectl, names to remove get no prefix."""
    variables = tuple({**variable, "name": prefix + variable["name"]} for variable in changes.variables)
    return msgspec.structs.replace(changes, variables=variables)


def change_env(old: Sequence[Document], changes: EnvironmentChanges) -> list[Document]:
    """The changed variables: existing variables keep their place, new variables are appended."""
    new = {variable["name"]: variable for variable in changes.variables}
    kept = [new.pop(entry["name"], entry) for entry in old if entry["name"] not in changes.removed]
    return [*kept, *new.values()]


def format_env_name(key: str) -> str:
    """Variable name for a key: in upper case, with `_` instead of all characters except letters, digits and `_`."""
    return re.sub(r"[^A-Za-z0-9_]", "_", key).upper()


def build_references(source: Document, keys: Sequence[str]) -> list[Document]:
    """Variables that refer to the keys of a Secret or ConfigMap, sorted."""
    field = "secretKeyRef" if source["kind"] == "Secret" else "configMapKeyRef"
    names = sorted(item for item in source.get("data") or {} if not keys or item in keys)
    return [
        {
            "name": format_env_name(key),
            "valueFrom": {field: {"name": source["metadata"]["name"], "key": key}},
        }
        for key in names
    ]


async def set_env(session: Session) -> list[Error]:
    """`set env RESOURCE/NAME KEY=VAL … KEY- …`."""
    call = session.call
    given = call.everything
    first = next((n for n, value in enumerate(given) if is_change(value)), len(given))
    if not all(is_change(text) for text in given[first:]):
        raise KubectlError(f"all resources must be specified before environment changes: {' '.join(given)}")
    names, words = given[:first], [*given[first:], *call.listed("env")]
    if not names and not call.has_files():
        raise KubectlError(_NONE_NAMED)
    if call.is_on("list") and call.text("output"):
        raise KubectlError("--list and --output may not be specified together")
    if call.listed("keys") and not call.text("from"):
        raise KubectlError("when specifying --keys, a configmap or secret must be provided with --from")
    if "-" in words:
        words = [word for word in words if word != "-"] + read_lines(session.around.read_stdin())
    changes = read_changes(words)
    changes = add_prefix(await _add_source(session, changes), call.text("prefix"))
    infos = await find_objects(session, names, needed=_NONE_NAMED)
    if call.is_on("list"):
        return await _list_env(session, infos, changes)
    return await apply(
        session,
        infos,
        lambda info, document: _change_env(session, info, document, changes),
        operation="env updated",
    )


async def _add_source(session: Session, changes: EnvironmentChanges) -> EnvironmentChanges:
    call = session.call
    if not (source := call.text("from")):
        return changes
    word, slash, name = source.partition("/")
    if not slash or not name:
        raise KubectlError(f"--from={source}: expected secret/NAME or configmap/NAME")
    served = (await session.read_mapper()).find(word)
    document = (await get(session, served, name)).document
    if served.resource not in (SECRETS, CONFIG_MAPS):
        raise KubectlError("unsupported resource specified in --from")
    variables = build_references(document, call.listed("keys"))
    for variable in variables:
        key = next(iter(variable["valueFrom"].values()))["key"]
        if format_env_name(key) != key:
            session.note(f"Warning: key {key} transferred to {format_env_name(key)}")
    return msgspec.structs.replace(changes, variables=(*changes.variables, *variables))


def _change_env(session: Session, info: Info, document: Document, changes: EnvironmentChanges) -> None:
    pattern = session.call.text("containers")
    specs = specs_of(info, document)
    result = [entry for spec in specs for entry in list_matching(spec, pattern)]
    if not result:
        session.warn(f'{document["kind"]}/{info.name} does not have any containers matching "{pattern}"')
        return
    if not session.call.is_on("overwrite"):
        _check_no_overwrite(info, result, changes)
    if not changes.variables and not changes.removed:
        return
    for container in result:
        old = container.get("env") or []
        new = change_env(old, changes)
        if new != old:
            container["env"] = new


def _check_no_overwrite(info: Info, containers: Sequence[Document], changes: EnvironmentChanges) -> None:
    values = {entry["name"]: entry.get("value", "") for entry in changes.variables}
    for container in containers:
        for variable in container.get("env") or ():
            old = variable.get("value", "")
            if values.get(variable["name"], old) != old:
                raise KubectlError(
                    f"{info.resource.plural}/{info.name} '{variable['name']}' already has a value"
                    f" ({old}), and --overwrite is false"
                )


# ── listing ──────────────────────────────────────────────────────────────────


async def _list_env(session: Session, infos: Sequence[Info], changes: EnvironmentChanges) -> list[Error]:
    call, has_failed = session.call, False
    for info in infos:
        specs_of(info, info.document)
        for spec in pod_specs_of(info.document):
            for container in list_matching(spec, call.text("containers")):
                session.say(f"# {info.document['kind']} {info.name}, container {container['name']}")
                problems: set[str] = set()
                for entry in change_env(container.get("env") or [], changes):
                    line, problem = await _format_variable(session, info, container, entry)
                    session.say(line)
                    problems |= {problem} if problem else set()
                for text in sorted(problems):
                    session.note(f"error retrieving reference for {text}")
                has_failed = has_failed or bool(problems)
    return [KubectlError("some references could not be resolved")] if has_failed else []


async def _format_variable(
    session: Session, info: Info, container: Document, entry: Document
) -> tuple[str, str]:
    """The line for a variable, and the error of its reference; the error is empty if there is none."""
    source = entry.get("valueFrom")
    if not source:
        return f"{entry['name']}={entry.get('value', '')}", ""
    if not session.call.is_on("resolve"):
        return f"# {entry['name']} from {format_source(source)}", ""
    try:
        return f"{entry['name']}={await _resolve(session, info, container, source)}", ""
    except (KubeError, KubectlError) as error:
        return f"# {entry['name']} from {format_source(source)}", f"{entry['name']}: {error}"


def format_source(source: Mapping[str, Any]) -> str:
    """Source of a variable as text: `secret s, key k`."""
    kind, ref = next(iter(source.items()))
    match kind:
        case "secretKeyRef":
            return f"secret {ref['name']}, key {ref['key']}"
        case "configMapKeyRef":
            return f"configmap {ref['name']}, key {ref['key']}"
        case "fieldRef":
            return f"field path {ref['fieldPath']}"
        case "resourceFieldRef":
            container = f"{ref['containerName']}/" if ref.get("containerName") else ""
            return f"resource field {container}{ref['resource']}"
    return str(kind)


async def _resolve(session: Session, info: Info, container: Document, source: Mapping[str, Any]) -> str:
    from pykruise.cli.kubectl.template_text import amount_of

    kind, ref = next(iter(source.items()))
    client = await session.make_client()
    match kind:
        case "secretKeyRef" | "configMapKeyRef":
            is_secret = kind == "secretKeyRef"
            raw = await client.get(SECRETS if is_secret else CONFIG_MAPS, info.namespace, ref["name"])
            data: Mapping[str, str] = orjson.loads(raw).get("data") or {}
            if ref["key"] not in data:
                raise KubectlError(f"key {ref['key']} not found in {format_source(source).partition(',')[0]}")
            value = data[ref["key"]]
            return base64.b64decode(value).decode("utf-8", "replace") if is_secret else value
        case "fieldRef":
            return field_of(info.document, ref["fieldPath"])
        case "resourceFieldRef":
            return amount_of(container, ref)
    raise KubectlError(f"{kind} cannot be resolved")


def field_of(document: Document, path: str) -> str:
    """Value of a field path of an object's metadata. Raises KubectlError."""
    meta = document["metadata"]
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(meta.get(path.partition(".")[2], ""))
        case "metadata.labels" | "metadata.annotations":
            values = meta.get(path.partition(".")[2]) or {}
            return "\n".join(f'{key}="{values[key]}"' for key in sorted(values))
    match = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if match:
        return str((meta.get(match[1]) or {}).get(match[2], ""))
    raise KubectlError(f"unsupported fieldPath: {path}")
