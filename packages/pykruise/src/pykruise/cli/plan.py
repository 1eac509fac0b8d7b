"""Command `pykruise plan -f changed.yaml`: forecasts the effects of applying a change. It only reads.

manifests or a live object, with --set ──▶ forecast() for each ──▶ text or JSON, exit code 0, 2 or 1
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from pykruise.cli.errors import CommandError, CommandLineError
from pykruise.cli.insight.effect_forecast import (
    Outlook,
    format_names,
    format_outlook,
    format_section,
    group_pods_by_fate,
    head_lines,
)
from pykruise.cli.insight.followed_config import (
    find_followers,
    is_config,
    is_following_on,
)
from pykruise.cli.insight.forecasting import Forecast, forecast
from pykruise.cli.insight.gates import fit_settings, parse_settings, read_manager_settings
from pykruise.cli.insight.generic import forecast_any
from pykruise.cli.insight.kind_insights import ATTACHED
from pykruise.cli.insight.known_kinds import check_manifests, find_kind_of_document, insight_of, parse_target
from pykruise.cli.insight.missing import make_missing_error
from pykruise.cli.insight.traced_requests import Reach, connect_traced
from pykruise.cli.manifests import check_namespace, load_documents, read_documents
from pykruise.cli.outputs import check_output, format_document, warning_lines
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode, deep_copy, get_path
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.near_misses import format_hint
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.insight import WorkloadInsight
from pykruise.plans.kind import Kind

NOTHING, FAILED, CHANGES = 0, 1, 2
"""Exit codes, the same as those of `terraform plan -detailed-exitcode`."""


async def run_plan(
    *,
    file: Path | None,
    target: str | None,
    sets: Sequence[str],
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
    output: str,
    say: Callable[[str], None],
    feature_gates: str = "",
    reach: Reach = connect_traced,
    note: Callable[[str], object] = lambda _: None,
) -> int:
    """Print the forecasts and return the exit code. Raises CommandError and KubeError. `note` receives lines that are
    not part of the output: the warnings that `kubectl apply` would print, and the name of an object whose plan takes
    long.
    """
    check_output(output)
    if (file is None) == (target is None):
        raise CommandLineError(
            "give either -f FILE (or -f - for standard input) or a live object such as clonesets/web"
        )
    if target is not None and not sets:
        raise CommandLineError(f"no change of {target} is given; use --set, such as --set replicas=5")
    documents, others = split_built_in(_read_documents(file), with_config=True)
    check_namespaces([*documents, *filter(is_config, others)], namespace or "")
    given = parse_settings(feature_gates) if feature_gates else None
    async with reach(kubeconfig, context) as (client, default_namespace):
        settings = (
            await fit_settings(client, given) if given else await read_manager_settings(client, time.time)
        )
        there = namespace or default_namespace
        if target is not None:
            documents = [await read_live_document(client, there, *parse_target(target))]
        changes, others = await find_config_changes(
            client, others, documents, namespace=there, settings=settings
        )
        if not documents and not changes.by_workload:
            split_built_in(others)
        documents = [*documents, *changes.followers]
        result = [
            await _note_if_long(
                _name_file_in_errors(
                    file,
                    plan_document(
                        client,
                        apply_sets(document, sets),
                        namespace=document["metadata"].get("namespace") or there,
                        now=time.time(),
                        settings=settings,
                        changed_config=changes.of(document, namespace=there),
                    ),
                ),
                f"planning {document['kind']} {document['metadata']['name']} ({number} of {len(documents)}) …",
                note,
            )
            for number, document in enumerate(documents, start=1)
        ]
    for line in warning_lines(text for item in result for text in item.warnings):
        note(line)
    if output != "text":
        say(format_document([msgspec.to_builtins(item) for item in result], output))
    else:
        say(
            "\n\n".join(
                ["\n".join(describe_forecast(item)) for item in result] + _format_ignored_objects(others)
            )
        )
    return compute_exit_code(result)


T = TypeVar("T")

LONG_S: Final = 2.0
"""Seconds after which work shows its progress."""


async def _name_file_in_errors(file: Path | None, work: Awaitable[T]) -> T:
    """Await the work, and add the file's name to its CommandError."""
    try:
        return await work
    except CommandError as error:
        raise CommandError(f"{file}: {error}" if file is not None else str(error)) from error


async def _note_if_long(work: Awaitable[T], what: str, note: Callable[[str], object]) -> T:
    handle = asyncio.get_running_loop().call_later(LONG_S, note, what)
    try:
        return await work
    finally:
        handle.cancel()


async def plan_document(
    client: Client,
    document: Document,
    *,
    namespace: str,
    now: Instant,
    settings: ManagerSettings | None = None,
    changed_config: Sequence[Document] = (),
) -> Forecast | Outlook:
    """Forecast of applying an object of any kind. Raises KubeError when an object cannot be read. `changed_config`:
    ConfigMaps and Secrets that the object follows and that change too.
    """
    kind = find_kind_of_document(document)
    await _check_version(client, kind, document)
    key = Key(namespace if kind.resource.namespaced else "", document["metadata"]["name"])
    if (attached := ATTACHED.get(kind.name)) is not None:
        return await attached.plan(client, document, key, now, settings)
    if not isinstance(kind.insight, WorkloadInsight):
        return await forecast_any(client, kind, document, key, now, settings)
    return await forecast(
        client, document, namespace=namespace, now=now, settings=settings, changed_config=changed_config
    )


async def _check_version(client: Client, kind: Kind, document: Document) -> None:
    """Raise CommandError when the cluster does not serve the kind in the document's version."""
    resource = kind.resource
    wanted = str(document.get("apiVersion"))
    if wanted == resource.api_version:
        return
    try:
        result = decode(await client.get_path(f"/apis/{resource.group}"))
    except NotFoundError:
        return  # the cluster does not serve the kind; another error reports it
    served = [str(version.get("groupVersion")) for version in result.get("versions") or ()]
    if served and wanted not in served:
        name = document["metadata"].get("name")
        others = f"; available: {', '.join(served)}"
        raise CommandError(
            f"{document['kind']} {name}: the cluster does not serve {wanted}"
            f"{format_hint(wanted, served, otherwise=others)}"
        )


def compute_exit_code(value: Sequence[Forecast | Outlook]) -> int:
    """Exit code: 1: a change is rejected; 2: something would change; 0: nothing would change."""
    if any(item.change == "refused" for item in value):
        return FAILED
    return CHANGES if any(item.has_changes for item in value) else NOTHING


def _read_documents(file: Path | None) -> list[Document]:
    if file is None:
        return []
    if str(file) == "-":
        return check_documents(load_documents(sys.stdin.read(), source="stdin"), source="stdin")
    return check_documents(read_documents(file), source=str(file))


def check_documents(documents: list[Document], *, source: str) -> list[Document]:
    """Check that manifests have known kinds and names. Raises CommandError, which names `source`, for other manifests
    and for an empty list.
    """
    if not documents:
        raise CommandError(f"{source}: the input contains no objects")
    check_manifests(documents, source=source)
    return documents


def check_namespaces(documents: Sequence[Document], given: str) -> None:
    """Raise CommandError if a manifest of a namespaced object names another namespace than `-n` (`given`)."""
    for document in documents:
        if is_config(document) or find_kind_of_document(document).resource.namespaced:
            check_namespace(document, given)


def split_built_in(
    documents: Sequence[Document], *, with_config: bool = False
) -> tuple[list[Document], list[Document]]:
    """Documents that can be planned, and the documents of Kubernetes' own kinds.

    Raises CommandError for every other kind: it may be a misspelt known kind. `with_config`: a file of ConfigMaps and
    Secrets alone is accepted, because workloads may follow them.
    """
    known = [document for document in documents if not _is_built_in(document)]
    for entry in known or documents:
        if not (with_config and is_config(entry)):
            find_kind_of_document(entry)
    return known, [document for document in documents if _is_built_in(document)]


class ConfigChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changed ConfigMaps and Secrets with the workloads that follow them."""

    by_workload: Mapping[tuple[str, str, str], Sequence[Document]] = {}
    """Namespace, kind and name of a workload → the changed objects that it follows."""
    followers: Sequence[Document] = ()
    """Stored workloads, as manifests, that follow the changed objects. Workloads with a given manifest are left out."""

    def of(self, document: Document, *, namespace: str) -> Sequence[Document]:
        """Return the changed objects that a workload follows. `namespace`: namespace of a manifest that names none."""
        return self.by_workload.get(_identify(document, namespace), ())


def _identify(document: Document, namespace: str) -> tuple[str, str, str]:
    """Namespace, kind and name of a manifest. `namespace`: namespace of a manifest that names none."""
    metadata = document["metadata"]
    return metadata.get("namespace") or namespace, document["kind"], metadata["name"]


async def find_config_changes(
    client: Client,
    others: Sequence[Document],
    documents: Sequence[Document],
    *,
    namespace: str,
    settings: ManagerSettings,
) -> tuple[ConfigChanges, list[Document]]:
    """Return the ConfigMaps and Secrets of `others` that stored workloads follow, and the other documents.

    A manifest of `documents` replaces the stored workload.
    """
    changed = [document for document in others if is_config(document)]
    if not changed or not is_following_on(settings):
        return ConfigChanges(), list(others)
    by_workload: dict[tuple[str, str, str], Sequence[Document]] = {}
    manifests = {_identify(document, namespace) for document in documents}
    followers: list[Document] = []
    followed: set[tuple[str, str, str]] = set()
    for place in sorted({_identify(document, namespace)[0] for document in changed}):
        here = [document for document in changed if _identify(document, namespace)[0] == place]
        for live, own in await find_followers(client, here, namespace=place):
            by_workload[_identify(live, place)] = own
            followed |= {_identify(document, place) for document in own}
            if _identify(live, place) not in manifests:
                followers.append(_to_manifest(live))
    changes = ConfigChanges(by_workload=by_workload, followers=followers)
    return changes, [document for document in others if _identify(document, namespace) not in followed]


def _is_built_in(document: Document) -> bool:
    """Whether the API group is one of Kubernetes' own: `v1`, `apps/v1`, `networking.k8s.io/v1`."""
    group, slash, _ = document["apiVersion"].partition("/")
    return not slash or "." not in group or group.endswith(".k8s.io")


def _format_ignored_objects(others: Sequence[Document]) -> list[str]:
    names = ", ".join(f"{entry['kind']} {entry['metadata']['name']}" for entry in others)
    return [f"Not planned: {names}"] if others else []


async def read_live_document(client: Client, namespace: str, kind: Kind, name: str) -> Document:
    """The stored object as a manifest with name, namespace and spec. Raises CommandError when it does not
    exist.
    """
    resource = kind.resource
    namespace = namespace if resource.namespaced else ""
    try:
        live = decode(await client.get(resource, namespace, name))
    except NotFoundError as error:
        raise await make_missing_error(client, resource, Key(namespace, name), error) from error
    return _to_manifest(live)


def _to_manifest(live: Document) -> Document:
    """A manifest with the name, namespace and spec of a stored object."""
    metadata = {key: live["metadata"][key] for key in ("name", "namespace") if live["metadata"].get(key)}
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": metadata,
        "spec": live["spec"],
    }


def apply_sets(document: Document, sets: Sequence[str]) -> Document:
    """The document with every `--set` applied. Raises CommandError for an invalid `--set`."""
    changed: Document = deep_copy(document)
    kind = find_kind_of_document(document)
    fields = {} if kind.shown is None else kind.shown.fields
    for text in sets:
        field, equals, value = text.partition("=")
        if not equals or not value:
            raise CommandLineError(
                f"--set {text!r}: expected field=value, such as replicas=5 or image=main=nginx:1.27"
            )
        if field == "image" and (path := find_containers_path(kind, changed)):
            _set_image(changed, path, value, text)
        elif field in fields:
            _set_field(changed, fields[field].find_path(changed), _parse_value(field, value, text))
        else:
            known = (*(("image",) if find_containers_path(kind, changed) else ()), *fields)
            others = f"; available: {', '.join(known) or 'nothing'}"
            raise CommandError(
                f"--set {text!r}: {field!r} cannot be set here{format_hint(field, known, otherwise=others)}"
            )
    return changed


def find_containers_path(kind: Kind, document: Document) -> tuple[str, ...]:
    """Path of the containers in the document; empty if the kind has none."""
    if insight_of(kind).containers:
        return insight_of(kind).containers
    templates = kind.shown.templates if kind.shown is not None else ()
    paths = (tuple(f"{template}.spec.containers".split(".")) for template in templates)
    return next((path for path in paths if get_path(document, *path)), ())


def _parse_value(field: str, value: str, said: str) -> Any:
    match field:
        case "replicas":
            if not value.isdecimal():
                raise CommandLineError(f"--set {said!r}: replicas must be a whole number")
            return int(value)
        case "paused":
            if value not in ("true", "false"):
                raise CommandLineError(f"--set {said!r}: the value must be true or false")
            return value == "true"
        case _:
            return int(value) if value.isdecimal() else value


def _set_field(document: Document, path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        document = document.setdefault(name, {})
    document[path[-1]] = value


def _set_image(document: Document, path: Sequence[str], value: str, said: str) -> None:
    container, equals, image = value.partition("=")
    containers: list[Any] = get_path(document, *path) or []
    names = [container["name"] for container in containers]
    if not equals or not image:
        raise CommandLineError(f"--set {said!r}: expected image=CONTAINER=IMAGE")
    if container not in names:
        raise CommandError(
            f"--set {said!r}: no container is named {container!r}; the containers are {', '.join(names)}"
        )
    containers[names.index(container)]["image"] = image


# Text


def describe_forecast(item: Forecast | Outlook) -> list[str]:
    """Lines of a forecast for the output."""
    if isinstance(item, Outlook):
        within = [
            f"  {line}" if line else "" for part in item.within for line in ("", *describe_forecast(part))
        ]
        return [*format_outlook(item), *within]
    lines = head_lines(item)
    if item.change == "refused" or not item.has_changes:
        return lines
    lines += format_section("How", [f"pods of {revision}: {way}" for revision, way in item.ways.items()])
    lines += format_section("Order", [_batch_line(item, number) for number in range(len(item.batches))])
    lines += format_section("Stays", [f"{format_names(pods)}: {why}" for why, pods in item.stays.items()])
    claims = (
        ("created", item.claims_created),
        ("deleted", item.claims_deleted),
        ("kept without a pod", item.claims_kept),
    )
    lines += format_section("Claims", [f"{word}: {format_names(names)}" for word, names in claims if names])
    lines += format_section("Blocked by", item.holds)
    lines += format_section("Note", item.notes)
    pods = format_count(item.pods_after, "pod")
    after = f"{item.pods_before} → {pods}, never fewer than {item.lowest_available} available"
    assumed = "if every pod becomes ready, there is room for it, and hooks are released"
    return [*lines, "", f"In the end: {after}, {assumed}."]


def _batch_line(item: Forecast, number: int) -> str:
    parts = [
        f"{do} {_count(pods) if do == 'create' and not item.are_names_known else format_names(pods)}"
        for do, pods in group_pods_by_fate(item.batches[number].fates).items()
    ]
    wait = "" if number == 0 else "then, as pods become ready: "
    return f"{number + 1:3d}. {wait}{'; '.join(parts)}"


def _count(pods: Sequence[str]) -> str:
    return format_count(len(pods), "pod")
