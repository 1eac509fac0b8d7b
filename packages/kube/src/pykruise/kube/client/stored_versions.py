"""Requests in the version that a cluster stores: programs know one version of a kind, clusters may store another.

Client ──Request in the hub version──▶ StoredVersionTransport ──in the stored version──▶ API server
       ◀──responses and watch events, converted─────────────┘
                    discovery ──▶ StoredVersions: which version of each kind is stored

An API server calls a conversion webhook whenever a client reads a version other than the stored one. While two managers
run side by side, this webhook may belong to the other one. A manager that reads the stored version does not depend on
it. In a cluster that serves only the older version, no other version can be read.

The transport converts (kube/schemas/conversion.py):

- objects in bodies and responses, in lists and in watch events;
- `apiVersion` in `metadata.ownerReferences` of all written objects, since a garbage collector must find the owner's
  kind in a served version;
- patches. A merge patch of metadata, or of a status that is the same in both versions, is sent unchanged. The body of
  a server-side apply is converted like an object. Any other patch is applied to the object as it is stored now, and the
  difference is sent with that object's resourceVersion; after a conflict this is repeated, up to `MOST_TRIES` attempts.

Converted objects carry the annotation `STORED_VERSION` in memory; it is never sent.
"""

import base64
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.kube.documents import Document, deep_copy, get_path, is_same
from pykruise.kube.errors import ConnectionLostError, NotFoundError, parse_error
from pykruise.kube.patches import PatchError, apply_json_patch, apply_merge_patch, diff_merge
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.conversion import (
    KEPT_PREFIX,
    Conversion,
    ConversionError,
    Conversions,
    annotate,
    convert,
)

__all__ = [
    "STORED_VERSION",
    "StoredVersionTransport",
    "StoredVersions",
    "compute_storage_version_hash",
    "stored_version_of",
]

STORED_VERSION: Final = "pykruise.io/stored-version"
"""Annotation, in memory only: the version in which the object was read, when that is not the hub version."""

MOST_TRIES: Final = 4
"""Maximum number of attempts at a patch that is computed here, if other clients write the object at the same time."""

_OK: Final = range(200, 300)
_CONFLICT: Final = 409
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_GROUP_AT: Final = 2
"""Index of the group in the parts of a path: `/apis/<group>/…`."""
_PATCH_ERROR: Final = {400: "BadRequest", 422: "Invalid"}

_DECODED: Final = frozenset({"metadata", "status", "apiVersion", "kind"})
"""Only a merge patch of these fields can be sent unchanged."""


def compute_storage_version_hash(group: str, version: str, kind: str) -> str:
    """Return the `storageVersionHash` of discovery. This is the rule of apiserver's `discovery.StorageVersionHash`."""
    digest = hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def stored_version_of(annotations: Mapping[str, str], *, hub: str) -> str:
    """Return the version in which an object is stored, according to the annotations that clients of this program
    see.
    """
    return annotations.get(STORED_VERSION, hub)


class _Target(msgspec.Struct, frozen=True):
    """Target of a request about a kind that is stored in another version."""

    conversion: Conversion
    version: str
    """The stored version."""
    path: str
    """Path of the request, in the stored version."""
    name: str
    subresource: str

    @property
    def stored(self) -> str:
        """`apiVersion` of stored objects."""
        return f"{self.conversion.resource.group}/{self.version}"

    @property
    def hub(self) -> str:
        """`apiVersion` of objects as clients see them."""
        return self.conversion.resource.api_version


class _Kind(msgspec.Struct):
    """A resource of a group, as discovery describes it."""

    kind: str
    hashes: dict[str, str]
    """Hash of the stored version, by served version."""


_Group = Mapping[str, _Kind]
"""Kinds of an API group by plural name."""


class StoredVersions:
    """The version in which a cluster stores each kind of some groups, according to discovery.

    Discovery runs once for each group: at its first use, and again after `forget()`. When the cluster does not publish
    the stored version of a kind, the hub version is assumed if it is served, else the older one.
    """

    def __init__(self, transport: Transport, conversions: Conversions, *, groups: Iterable[str]) -> None:
        self._transport = transport
        self._conversions = conversions
        self.groups = frozenset(groups)
        self._known: dict[str, _Group] = {}
        self._has_older: dict[str, bool] = {}

    def forget(self, group: str) -> None:
        """Run discovery again before the next request about this group: its CRDs may have changed."""
        self._known.pop(group, None)
        self._has_older.pop(group, None)

    async def find_stored_version(self, resource: Resource) -> str:
        """Return the version in which objects of this resource are stored."""
        result = await self.find_older_version(resource.group, resource.plural)
        return resource.version if result is None else result[1]

    async def find_older_version(self, group: str, plural: str) -> tuple[Conversion, str] | None:
        """Return the conversion of a resource's objects and the stored version. None: the resource is stored in its
        hub version, has only one version, or belongs to another program.
        """
        known = (await self._find_kinds(group)).get(plural)
        return None if known is None else self._choose_older(group, known)

    async def older_of_kind(self, group: str, kind: str) -> str | None:
        """Return the stored version of a kind if it is not its hub version, else None."""
        known = next((item for item in (await self._find_kinds(group)).values() if item.kind == kind), None)
        result = None if known is None else self._choose_older(group, known)
        return None if result is None else result[1]

    async def has_older(self, group: str) -> bool:
        """Whether any kind of the group is stored in another version than its hub version."""
        known = await self._find_kinds(group)
        if group not in self._has_older:
            self._has_older[group] = any(self._choose_older(group, kind) for kind in known.values())
        return self._has_older[group]

    def _choose_older(self, group: str, known: _Kind) -> tuple[Conversion, str] | None:
        conversion = self._conversions.get((group, known.kind))
        if conversion is None:
            return None
        version = _choose_version(conversion, known.hashes)
        return None if version == conversion.hub else (conversion, version)

    async def _find_kinds(self, group: str) -> _Group:
        if group not in self.groups:
            return {}
        known = self._known.get(group)
        if known is None:
            known = self._known[group] = await self._discover_group(group)
        return known

    async def _discover_group(self, group: str) -> _Group:
        result: dict[str, _Kind] = {}
        for served in (await self._read_discovery(f"/apis/{group}")).get("versions") or ():
            version = served.get("version", "")
            for row in (await self._read_discovery(f"/apis/{group}/{version}")).get("resources") or ():
                plural = row.get("name", "")
                if plural and "/" not in plural:
                    known = result.setdefault(plural, _Kind(row.get("kind", ""), {}))
                    known.hashes[version] = row.get("storageVersionHash", "")
        return result

    async def _read_discovery(self, path: str) -> Document:
        """Return a document of discovery; empty if the cluster has no such document, or does not permit reading it.

        Raises ApiError for any other error, because the result of discovery is kept.
        """
        answer = await self._transport.request(Request("GET", path, headers={"accept": "application/json"}))
        if answer.status in (_FORBIDDEN, _NOT_FOUND):
            return {}
        if answer.status not in _OK:
            raise parse_error(answer.status, answer.body, answer.headers)
        return _parse(answer.body, path)


def _choose_version(conversion: Conversion, hashes: Mapping[str, str]) -> str:
    """Return the stored version. `hashes`: hash of the stored version, by served version; empty: not published."""
    resource = conversion.resource
    served = [version for version in conversion.versions if version in hashes]
    for version in served:
        if hashes[version] == compute_storage_version_hash(resource.group, version, resource.kind):
            return version
    return served[0] if served else conversion.hub


class StoredVersionTransport(WrappedTransport):
    """Converts requests from hub versions to the stored versions, and sends them. See the module's text.

    Its owner calls `forget()` when CRDs change; a 404 about a kind has the same effect.
    """

    def __init__(self, inner: Transport, conversions: Conversions, *, groups: Iterable[str]) -> None:
        super().__init__(inner)
        self.versions = StoredVersions(inner, conversions, groups=groups)
        self._conversions = conversions

    @property
    def inner(self) -> Transport:
        """The wrapped transport, which sends requests unchanged."""
        return self._inner

    async def request(self, request: Request, /) -> Response:
        """See `Transport.request`."""
        target = await self._find_target(request.path)
        request = await self._with_stored_owners(request)
        if target is None:
            answer = await self._inner.request(request)
        elif request.method == "PATCH":
            answer = await self._send_patch(request, target)
        else:
            answer = await self._inner.request(self._to_stored_request(request, target))
        if answer.status == _NOT_FOUND and not _is_object_missing(answer.body):
            self._forget_group_of(request.path)
        return answer if target is None else self._in_hub_version(answer, target)

    def _forget_group_of(self, path: str) -> None:
        """Forget the group of a path after a 404: CRDs may have been created, or may serve another version, since
        discovery.
        """
        parts = path.split("/")
        if len(parts) > _GROUP_AT and parts[_GROUP_AT] in self.versions.groups:
            self.versions.forget(parts[_GROUP_AT])

    @asynccontextmanager
    async def _converted_stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        target = await self._find_target(request.path)
        there = request if target is None else msgspec.structs.replace(request, path=target.path)
        try:
            async with self._inner.stream(there) as lines:
                yield lines if target is None else self._convert_lines(lines, target)
        except NotFoundError:
            self._forget_group_of(request.path)
            raise

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        return self._converted_stream(request)

    async def _convert_lines(self, lines: AsyncIterator[bytes], target: _Target) -> AsyncIterator[bytes]:
        async for line in lines:
            event = _parse(line, target.path)
            obj = event.get("object")
            if isinstance(obj, dict):
                event["object"] = self._to_hub(obj, target)
            yield orjson.dumps(event)

    # ── targets of requests ──────────────────────────────────────────────────

    async def _find_target(self, path: str) -> _Target | None:
        """Return the target of a request, or None: the request is sent unchanged."""
        parts = path.split("/")
        # "", "apis", group, version, ["namespaces", namespace,] plural, [name, [subresource]]
        if len(parts) < 5 or parts[1] != "apis" or parts[2] not in self.versions.groups:
            return None
        group, version, rest = parts[2], parts[3], parts[4:]
        if rest[0] == "namespaces" and len(rest) > 2:
            rest = rest[2:]
        older = await self.versions.find_older_version(group, rest[0])
        if older is None or version != older[0].hub:
            return None
        conversion, stored = older
        there = "/".join([*parts[:3], stored, *parts[4:]])
        name, subresource = [*rest[1:3], "", ""][:2]
        return _Target(conversion, stored, there, name, subresource)

    def _to_stored_request(self, request: Request, target: _Target) -> Request:
        """Convert a request to the stored version. Patches are converted below."""
        body = request.body
        if body and request.method in ("POST", "PUT") and target.subresource in ("", "status"):
            body = orjson.dumps(self._to_stored(_parse(body, target.path), target))
        return msgspec.structs.replace(request, path=target.path, body=body)

    # ── patches ──────────────────────────────────────────────────────────────

    async def _send_patch(self, request: Request, target: _Target) -> Response:
        kind, body = request.headers.get("content-type"), request.body or b"{}"
        if target.subresource not in ("", "status"):
            return await self._inner.request(msgspec.structs.replace(request, path=target.path))
        if kind == PatchType.APPLY:
            applied = orjson.dumps(self._to_stored(_parse(body, target.path), target))
            return await self._inner.request(msgspec.structs.replace(request, path=target.path, body=applied))
        change = orjson.loads(body)
        if kind == PatchType.MERGE and _is_same_in_both(change, target.conversion):
            return await self._inner.request(
                msgspec.structs.replace(
                    request, path=target.path, body=orjson.dumps(_in_version(change, target.stored))
                )
            )
        answer = None
        for _ in range(MOST_TRIES):
            answer = await self._patch_once(request, change, kind == PatchType.JSON, target)
            if answer.status != _CONFLICT or _has_own_version(change):
                break
        assert answer is not None
        return answer

    async def _patch_once(
        self, request: Request, change: Any, is_json_patch: bool, target: _Target
    ) -> Response:
        plain = target.path.removesuffix(f"/{target.subresource}") if target.subresource else target.path
        headers = {name: text for name, text in request.headers.items() if name != "content-type"}
        current = await self._inner.request(
            Request("GET", plain, headers=headers, timeout_s=request.timeout_s)
        )
        if current.status not in _OK:
            return current
        stored = _parse(current.body, plain)
        before = self._to_hub(stored, target)
        try:
            after = apply_json_patch(before, change) if is_json_patch else apply_merge_patch(before, change)
        except PatchError as error:
            return _to_refusal(error, target)
        difference = diff_merge(stored, self._to_stored(after, target))
        version = get_path(change, "metadata", "resourceVersion") or get_path(
            stored, "metadata", "resourceVersion"
        )
        answer = current
        for path, part in _build_patch_requests(difference, plain, target):
            metadata = {**part.get("metadata", {}), "resourceVersion": version}
            if uid := get_path(change, "metadata", "uid"):
                metadata["uid"] = uid
            sent = {**request.headers, "content-type": PatchType.MERGE.value}
            body = orjson.dumps({**part, "metadata": metadata})
            answer = await self._inner.request(
                msgspec.structs.replace(request, path=path, headers=sent, body=body)
            )
            if answer.status not in _OK:
                break
            version = get_path(_parse(answer.body, path), "metadata", "resourceVersion")
        return answer

    # ── documents ────────────────────────────────────────────────────────────

    def _in_hub_version(self, answer: Response, target: _Target) -> Response:
        if answer.status not in _OK or target.subresource not in ("", "status"):
            return answer
        document = _parse(answer.body, target.path)
        if isinstance(document.get("items"), list):
            document["apiVersion"] = (
                target.hub if document.get("apiVersion") == target.stored else document["apiVersion"]
            )
            document["items"] = [self._to_hub(item, target) for item in document["items"]]
        else:
            document = self._to_hub(document, target)
        return Response(answer.status, answer.headers, orjson.dumps(document))

    def _to_hub(self, document: Document, target: _Target) -> Document:
        """Return an object of this kind in the hub version; anything else unchanged.

        An object that cannot be converted keeps its fields: its reader reports the error.
        """
        if (
            document.get("apiVersion") != target.stored
            or document.get("kind") != target.conversion.resource.kind
        ):
            return document
        try:
            result = convert(document, target.hub, self._conversions)
        except ConversionError:
            return _in_version(document, target.hub)
        annotate(result, STORED_VERSION, target.version)
        return result

    def _to_stored(self, document: Document, target: _Target) -> Document:
        if document.get("apiVersion") != target.hub:
            return document
        plain = deep_copy(document)
        annotate(plain, STORED_VERSION, None)
        return convert(plain, target.stored, self._conversions)

    # ── owners ───────────────────────────────────────────────────────────────

    async def _with_stored_owners(self, request: Request) -> Request:
        """Return the request with owner references in the stored versions."""
        body = request.body
        if not body or request.method not in ("POST", "PUT", "PATCH") or b"ownerReferences" not in body:
            return request
        named = [group for group in self.versions.groups if group.encode() in body]
        if not [group for group in named if await self.versions.has_older(group)]:
            return request
        document = orjson.loads(body)
        changed = False
        for reference in _list_owner_references(document):
            group, _, version = str(reference.get("apiVersion")).rpartition("/")
            kind = str(reference.get("kind"))
            older = await self.versions.older_of_kind(group, kind)
            if older is not None and version == self._conversions[group, kind].hub:
                reference["apiVersion"] = f"{group}/{older}"
                changed = True
        return msgspec.structs.replace(request, body=orjson.dumps(document)) if changed else request


def _list_owner_references(body: Any) -> Iterable[Document]:
    """Yield the owner references of an object, of a merge patch or of a JSON patch."""
    if isinstance(body, dict):
        lists = [get_path(body, "metadata", "ownerReferences")]
    else:
        lists = [_find_patched_references(entry) for entry in body if isinstance(entry, dict)]
    for references in lists:
        if isinstance(references, list):
            yield from (reference for reference in references if isinstance(reference, dict))


def _find_patched_references(operation: Document) -> Any:
    path, value = operation.get("path"), operation.get("value")
    if path == "/metadata/ownerReferences":
        return value
    if isinstance(path, str) and path.startswith("/metadata/ownerReferences/"):
        return [value]
    return get_path(value, "ownerReferences") if path == "/metadata" else None


def _build_patch_requests(difference: Document, plain: str, target: _Target) -> list[tuple[str, Document]]:
    """Return the patches that write a difference, each with its path.

    Parts of a newer status are annotations in the older version. A status write stores no annotations, so these
    annotations are written first. Annotations with kept fields (`KEPT_PREFIX`) are left out, since the next status
    contains these fields again.
    """
    if not target.subresource:
        return [(plain, difference)] if difference else []
    requests = []
    annotations = {
        name: text
        for name, text in (get_path(difference, "metadata", "annotations") or {}).items()
        if not name.startswith(KEPT_PREFIX)
    }
    if annotations:
        requests.append((plain, {"metadata": {"annotations": annotations}}))
    if target.subresource in difference:
        requests.append((target.path, {target.subresource: difference[target.subresource]}))
    return requests


def _is_object_missing(body: bytes) -> bool:
    """Whether a 404 reports a missing object, not a missing kind."""
    try:
        return bool(get_path(orjson.loads(body), "details", "name"))
    except orjson.JSONDecodeError:
        return False  # "404 page not found"


def _is_same_in_both(change: Any, conversion: Conversion) -> bool:
    """Whether a merge patch has the same meaning in both versions, for any object."""
    if not isinstance(change, dict) or not change.keys() <= _DECODED:
        return False
    if "status" not in change:
        return True
    document = {"metadata": {}, "status": change["status"]}
    return is_same(conversion.to_spoke(deep_copy(document)), document)


def _in_version(document: Document, api_version: str) -> Document:
    return {**document, "apiVersion": api_version} if "apiVersion" in document else document


def _has_own_version(change: Any) -> bool:
    """Whether a patch names a resourceVersion. If so, its sender must see the conflict."""
    return isinstance(change, dict) and get_path(change, "metadata", "resourceVersion") is not None


def _to_refusal(error: PatchError, target: _Target) -> Response:
    """Return the response that an API server gives to a patch that cannot be applied."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": str(error),
        "reason": _PATCH_ERROR.get(error.code, "BadRequest"),
        "details": {"name": target.name, "kind": target.conversion.resource.plural},
        "code": error.code,
    }
    return Response(error.code, {"content-type": "application/json"}, orjson.dumps(status))


def _parse(body: bytes, path: str) -> Document:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as err:
        raise ConnectionLostError(f"{path}: the response is not JSON: {err}") from err
    if not isinstance(value, dict):
        raise ConnectionLostError(f"{path}: the response is not a JSON object")
    return value
