"""Selects the objects of a command: `TYPE NAME…`, `TYPE/NAME…`, files, folders, standard input, selectors.

arguments ──▶ parse_request() (pure) ──▶ ResourceRequest
Session, arguments ──▶ find() ──▶ SelectedObjects: objects, and errors

Errors have kubectl's words. An object that cannot be read does not stop the search for the others.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import orjson

from pykruise.cli.errors import CommandError
from pykruise.cli.kubectl.discovery import ServedResource
from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.flags import CommandCall
from pykruise.cli.kubectl.session import Session
from pykruise.kube.client.retries import RetryPolicy, is_read_repeatable
from pykruise.kube.documents import Document
from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.resources import Resource
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.near_misses import format_hint

Error = KubeError | CommandError
T = TypeVar("T")

_EXTENSIONS: Final = (".json", ".yaml", ".yml")


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """An object as stored in the cluster, or as read from a file if the command works without a cluster."""

    resource: Resource
    namespace: str
    name: str
    document: Document
    scales: bool = False
    """Whether the API server serves the object's scale subresource."""

    @property
    def label(self) -> str:
        """Name in error messages: `deployments.apps "web"`."""
        return f'{self.resource} "{self.name}"'

    @property
    def short(self) -> str:
        """Name in results: `deployment.apps/web`."""
        group = f".{self.resource.group}" if self.resource.group else ""
        return f"{self.resource.kind.lower()}{group}/{self.name}"

    def replace_document(self, document: Document) -> "Info":
        """The same object with a changed document."""
        return msgspec.structs.replace(self, document=document)


class ResourceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that the arguments name: pairs of type and name, or types of which all objects are selected."""

    pairs: tuple[tuple[str, str], ...] = ()
    types: tuple[str, ...] = ()


class SelectedObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that the arguments select."""

    infos: tuple[Info, ...] = ()
    errors: tuple[Error, ...] = ()
    """Errors in the order of the arguments."""

    def take_only(self) -> Info:
        """The only selected object. Raises the first error, or KubectlError."""
        if self.errors:
            raise self.errors[0]
        if len(self.infos) != 1:
            raise KubectlError(
                f"exactly one resource is required here, {format_count(len(self.infos), 'was', 'were')} given"
            )
        return self.infos[0]


_MIXED: Final = (
    "there is no need to specify a resource type as a separate argument when passing arguments in resource/name"
    " form (e.g. '{program} get resource/<resource_name>' instead of '{program} get resource"
    " resource/<resource_name>'"
)


def parse_request(arguments: Sequence[str], *, allow_all: bool, program: str = "kubectl") -> ResourceRequest:
    """Parse the arguments. `allow_all`: a type without a name selects all objects of the type. Raises KubectlError."""
    if not arguments:
        return ResourceRequest()
    if any("/" in argument for argument in arguments):
        if not all("/" in argument for argument in arguments):
            raise KubectlError(_MIXED.format(program=program))
        return ResourceRequest(pairs=tuple(_parse_pair(argument) for argument in arguments))
    types = tuple(part for part in arguments[0].split(",") if part)
    if len(arguments) == 1:
        if not allow_all:
            raise KubectlError("resource(s) were provided, but no name was specified")
        return ResourceRequest(types=types)
    return ResourceRequest(pairs=tuple((type_, name) for type_ in types for name in arguments[1:]))


def _parse_pair(argument: str) -> tuple[str, str]:
    parts = argument.split("/")
    if len(parts) != 2:
        raise KubectlError("arguments in resource/name form may not have more than one slash")
    if not parts[0] or not parts[1]:
        raise KubectlError("arguments in resource/name form must have a single resource and name")
    return parts[0], parts[1]


async def find(
    session: Session,
    arguments: Sequence[str],
    *,
    allow_all: bool = True,
    needed: str = "required resource not specified",
    if_none: str = "",
    selector: str | None = None,
    is_local: bool = False,
) -> SelectedObjects:
    """Find the objects that the arguments and `-f`, `-k`, `-l`, `--all` and `-A` select.

    Raises KubectlError for invalid combinations, with the text `needed` when nothing was named, and with the text
    `if_none` when nothing matches; an empty `if_none` prints a note. `selector`: label selector, by default the value
    of `--selector`. `is_local`: returns the objects of files without reading the cluster.
    """
    call = session.call
    selector = call.text("selector") if selector is None else selector
    if call.is_on("all") and selector:
        raise KubectlError("cannot set --all and --selector at the same time")
    if call.has_files():
        if arguments:
            raise KubectlError(
                "when paths, URLs, or stdin is provided as input, you may not specify resource arguments as well"
            )
        return await _find_in_files(session, if_none=if_none, is_local=is_local)
    if not arguments:
        raise KubectlError(needed)
    wants_all = allow_all or call.is_on("all") or bool(selector)
    asked = parse_request(arguments, allow_all=wants_all)
    if asked.pairs and call.is_on("all"):
        raise KubectlError("setting 'all' parameter but found a non empty selector. ")
    if asked.pairs and selector:
        raise KubectlError("name cannot be provided when a selector is specified")
    if not asked.types:
        return await _find_pairs(session, asked.pairs)
    return await _find_types(session, asked.types, if_none=if_none)


async def _find_pairs(session: Session, pairs: Iterable[tuple[str, str]]) -> SelectedObjects:
    mapper = await session.read_mapper()
    infos: list[Info] = []
    errors: list[Error] = []
    for word, name in pairs:
        served = mapper.find(word)
        try:
            infos.append(await get(session, served, name))
        except KubeError as error:
            errors.append(error)
    return SelectedObjects(infos=tuple(infos), errors=tuple(errors))


async def get(session: Session, served: ServedResource, name: str, namespace: str = "") -> Info:
    """Read an object. Raises NotFoundError."""
    client = await session.make_client()
    there = (namespace or await session.read_namespace()) if served.resource.namespaced else ""
    raw = await client.get(served.resource, there, name)
    return Info(
        resource=served.resource,
        namespace=there,
        name=name,
        document=orjson.loads(raw),
        scales="scale" in served.subresources,
    )


async def _find_types(session: Session, words: Sequence[str], *, if_none: str) -> SelectedObjects:
    mapper, namespace = await session.read_mapper(), await session.read_namespace()
    everywhere = session.call.is_on("all-namespaces")
    infos: list[Info] = []
    errors: list[Error] = []
    for word in words:
        served = mapper.find(word)
        try:
            infos += await list_all(session, served, "" if everywhere else namespace)
        except KubeError as error:
            errors.append(error)
    if not infos and not errors:
        if if_none:
            raise KubectlError(if_none)
        session.note("No resources found" if everywhere else f"No resources found in {namespace} namespace.")
    return SelectedObjects(infos=tuple(infos), errors=tuple(errors))


async def reread(session: Session, info: Info) -> Info:
    """Read an object again. Raises NotFoundError when it was deleted."""
    client = await session.make_client()
    return info.replace_document(orjson.loads(await client.get(info.resource, info.namespace, info.name)))


async def read_patiently(read: Callable[[], Awaitable[T]]) -> T:
    """Result of `read`, which is repeated after temporary errors: the caller limits the time. Raises KubeError."""
    policy, rng = RetryPolicy(base_s=1.0), random.Random()
    failures = 0
    while True:
        try:
            return await read()
        except KubeError as error:
            if not is_read_repeatable(error):
                raise
            failures += 1
            await asyncio.sleep(policy.wait_s(error, failures, rng))


async def refuse_existing(
    session: Session, resource: Resource, namespace: str, name: str, what: object
) -> None:
    """Raise KubectlError when the object already exists. `what`: type in the message."""
    client = await session.make_client()
    with suppress(NotFoundError):
        await client.get(resource, namespace, name)
        raise KubectlError(f"{what} {namespace}/{name} already exists")


async def list_all(
    session: Session, served: ServedResource, namespace: str, *, selector: str | None = None
) -> list[Info]:
    """List all objects of a resource in a namespace; an empty namespace: in all namespaces."""
    client = await session.make_client()
    resource = served.resource
    listed = await client.list(
        resource,
        namespace if resource.namespaced else "",
        label_selector=session.call.text("selector") if selector is None else selector,
    )
    infos = []
    for raw in listed.items:
        document = {"kind": resource.kind, "apiVersion": resource.api_version, **orjson.loads(bytes(raw))}
        meta = document["metadata"]
        infos.append(
            Info(
                resource=resource,
                namespace=meta.get("namespace", ""),
                name=meta["name"],
                document=document,
                scales="scale" in served.subresources,
            )
        )
    return infos


# ── files ────────────────────────────────────────────────────────────────────


async def _find_in_files(session: Session, *, if_none: str, is_local: bool) -> SelectedObjects:
    documents = await read_files(session)
    if not documents:
        raise KubectlError(if_none or "no objects passed to this command")
    infos: list[Info] = []
    errors: list[Error] = []
    for document in documents:
        try:
            infos.append(await _find_document(session, document, is_local=is_local))
        except (KubeError, CommandError) as error:
            errors.append(error)
    return SelectedObjects(infos=tuple(infos), errors=tuple(errors))


async def _find_document(session: Session, document: Document, *, is_local: bool) -> Info:
    meta = document["metadata"]
    if is_local:
        namespace = meta.get("namespace") or session.call.text("namespace")
        return Info(
            resource=_guess_resource(document),
            namespace=namespace,
            name=meta.get("name", ""),
            document=document,
        )
    mapper = await session.read_mapper()
    served = mapper.find_by_kind(document["apiVersion"], document["kind"])
    if served is None:
        versions = mapper.versions_of(document["kind"])
        raise KubectlError(
            f'resource mapping not found for name: "{meta["name"]}" namespace: "{meta.get("namespace", "")}" from'
            f' "{", ".join(session.call.listed("filename"))}": no matches for kind "{document["kind"]}" in version'
            f' "{document["apiVersion"]}"{format_hint(document["apiVersion"], versions)}\nensure CRDs are '
            "installed first"
        )
    namespace = await namespace_of(session, document)
    return await get(session, served, meta["name"], namespace)


async def namespace_of(session: Session, document: Document) -> str:
    """Namespace of a manifest's object. Raises CommandError when `-n` names another namespace."""
    from pykruise.cli.manifests import check_namespace

    check_namespace(document, session.call.text("namespace"))
    return document["metadata"].get("namespace") or await session.read_namespace()


def _guess_resource(document: Document) -> Resource:
    """Resource of a manifest without discovery: the plural is the lower-case kind with an s."""
    group, _, version = document["apiVersion"].rpartition("/")
    kind = document["kind"]
    return Resource(group, version, f"{kind.lower()}s", kind)


async def read_files(session: Session) -> list[Document]:
    """Read the objects of `-f` and `-k`."""
    from pykruise.cli.manifests import load_documents

    call = session.call
    documents: list[Document] = []
    for name in call.listed("filename"):
        for source, text in await _read_texts(session, name):
            documents += load_documents(text, source=source)
    if folder := call.text("kustomize"):
        documents += load_documents(run_kustomize(folder), source=folder)
    return documents


async def _read_texts(session: Session, name: str) -> list[tuple[str, str]]:
    if name == "-":
        return [("STDIN", session.around.read_stdin())]
    if name.startswith(("http://", "https://")):
        return [(name, await _download(name))]
    return _read_local(session.call, name)


def _read_local(call: CommandCall, name: str) -> list[tuple[str, str]]:
    path = Path(name)
    if not path.exists():
        raise KubectlError(f'the path "{name}" does not exist')
    paths = _list_files(path, call) if path.is_dir() else [path]
    try:
        return [(str(path), path.read_text("utf-8")) for path in paths]
    except (OSError, UnicodeDecodeError) as error:
        raise KubectlError(f"{name}: {getattr(error, 'strerror', None) or error}") from error


def _list_files(folder: Path, call: CommandCall) -> list[Path]:
    listed = folder.rglob("*") if call.is_on("recursive") else folder.iterdir()
    paths = sorted(path for path in listed if path.is_file() and path.suffix in _EXTENSIONS)
    if not paths:
        raise KubectlError(f"error reading [{folder}]: recognized file extensions are [.json .yaml .yml]")
    return paths


async def _download(url: str) -> str:
    from urllib.error import URLError
    from urllib.request import urlopen

    def read() -> str:
        with urlopen(url, timeout=30) as answer:
            body: bytes = answer.read()
        return body.decode("utf-8")

    try:
        return await asyncio.to_thread(read)
    except (URLError, OSError, UnicodeDecodeError) as error:
        raise KubectlError(f'unable to read URL "{url}": {error}') from error


def run_kustomize(folder: str) -> str:
    """Output of `kubectl kustomize` for a folder. kustomize is a Go program, so kubectl must be installed."""
    import shutil
    import subprocess

    program = shutil.which("kubectl")
    if program is None:
        raise KubectlError("-k needs kubectl in PATH, which contains kustomize")
    done = subprocess.run([program, "kustomize", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise KubectlError(done.stderr.strip().removeprefix("error: "))
    return done.stdout


def format_typed_name(document: Any) -> str:
    """Kind and name: `Deployment/web`."""
    return f"{document.get('kind')}/{document['metadata'].get('name')}"
