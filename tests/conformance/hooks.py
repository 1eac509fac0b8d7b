"""Webhooks with scripted responses, by path: `$hook/deny` denies everything, `$hook/patch/x` sets a label.

The sandbox calls them directly, a real API server over HTTPS on loopback.
"""

import asyncio
import base64
import ssl
import tempfile
from pathlib import Path
from typing import Any, Final

import orjson
from aiohttp import web

from pykruise.kube.clock import read_system_clock
from pykruise.kube.http.connection import cut_of
from pykruise.sandbox.apiserver.webhooks import CallFailedError, CallTarget
from pykruise.sandbox.certificates import issue

__all__ = ["SANDBOX_HOOKS", "DirectCaller", "HookServer"]

SANDBOX_HOOKS: Final = {"$hook": "https://127.0.0.1:10001", "$bundle": base64.b64encode(b"none").decode()}

SLOW: Final = "slow"


def answer(path: str, body: bytes) -> tuple[int, bytes] | None:
    """Status and body; None: no response in time."""
    review = orjson.loads(body)
    request = review["request"]
    first, *rest = path.strip("/").split("/")
    if first == SLOW:
        return None
    if first == "status":
        return int(rest[0]), b""
    if first == "text":
        return 200, b"text"
    if first == "empty":
        return 200, b"{}"
    if review["kind"] == "ConversionReview":
        result = _conversion(first, request)
    else:
        result = {"uid": request["uid"], **_admission(first, rest, request)}
    return 200, orjson.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": result})


def _admission(first: str, rest: list[str], request: dict[str, Any]) -> dict[str, Any]:
    match first:
        case "deny":
            return {"allowed": False}
        case "deny-reason":
            return {"allowed": False, "status": {"reason": "Forbidden", "code": 403}}
        case "deny-message":
            return {"allowed": False, "status": {"message": "no, thanks", "code": 418}}
        case "deny-details":
            causes = [{"reason": "FieldValueInvalid", "message": "too odd", "field": "data.x"}]
            status = {"message": "odd", "reason": "Invalid", "code": 422, "details": {"causes": causes}}
            return {"allowed": False, "status": status}
        case "deny-code":
            return {"allowed": False, "status": {"code": 200, "status": "Success"}}
        case "warn":
            return {"allowed": True, "warnings": ["mind this", 'and "that"']}
        case "wrong-uid":
            return {"allowed": True, "uid": "another"}
        case "patch":
            path, key = ("/metadata/annotations", rest[0])
            return _patched([*_annotations(request), {"op": "add", "path": f"{path}/{key}", "value": "yes"}])
        case "count":
            # Count the calls in an annotation of the object.
            annotations = (request["object"]["metadata"].get("annotations")) or {}
            seen = int(annotations.get("count", "0")) + 1
            value = {"op": "add", "path": "/metadata/annotations/count", "value": str(seen)}
            return _patched([*_annotations(request), value])
        case "tell":
            fields = {
                "kind": request["kind"]["kind"],
                "version": request["kind"]["version"],
                "resource": request["resource"]["resource"],
                "requestVersion": request["requestResource"]["version"],
                "sub": request.get("subResource", ""),
                "operation": request["operation"],
                "name": request.get("name", ""),
                "user": request["userInfo"]["username"],
                "dryRun": str(request["dryRun"]),
                "options": request["options"]["kind"],
                "object": (request.get("object") or {}).get("apiVersion", "none"),
                "old": (request.get("oldObject") or {}).get("apiVersion", "none"),
            }
            text = ", ".join(f"{name}={value}" for name, value in fields.items() if name != "user")
            return {"allowed": True, "warnings": [text]}
        case "bad-patch":
            return _patched([{"op": "test", "path": "/metadata/name", "value": "never"}])
        case "patch-without-type":
            return {"allowed": True, "patch": base64.b64encode(b"[]").decode()}
        case "odd-patch-type":
            return {"allowed": True, "patch": base64.b64encode(b"[]").decode(), "patchType": "Odd"}
        case _:
            return {"allowed": True}


def _annotations(request: dict[str, Any]) -> list[dict[str, Any]]:
    if (request["object"]["metadata"]).get("annotations"):
        return []
    return [{"op": "add", "path": "/metadata/annotations", "value": {}}]


def _patched(operations: list[dict[str, Any]]) -> dict[str, Any]:
    patch = base64.b64encode(orjson.dumps(operations)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def _conversion(first: str, request: dict[str, Any]) -> dict[str, Any]:
    uid, desired = request["uid"], request["desiredAPIVersion"]
    converted = [_renamed(doc, desired) for doc in request["objects"]]
    good = {"uid": uid, "result": {"status": "Success"}, "convertedObjects": converted}
    match first:
        case "convert-fails":
            return {"uid": uid, "result": {"status": "Failure", "message": "cannot do that"}}
        case "convert-none":
            return {**good, "convertedObjects": []}
        case "convert-wrong-version":
            return {**good, "convertedObjects": [{**doc, "apiVersion": "x/v9"} for doc in converted]}
        case "convert-wrong-name":
            for doc in converted:
                doc["metadata"]["name"] += "x"
            return good
        case "convert-wrong-uid":
            return {**good, "uid": "another"}
        case _:
            return good


def _renamed(doc: dict[str, Any], desired: str) -> dict[str, Any]:
    """Convert between versions: v2 has `size` in place of `length` in v1."""
    spec = dict(doc.get("spec") or {})
    for old, new in (("length", "size"),) if desired.endswith("/v2") else (("size", "length"),):
        if old in spec:
            spec[new] = spec.pop(old)
    return {**doc, "apiVersion": desired, "spec": spec}


class DirectCaller:
    """Calls webhooks for the sandbox, without HTTP."""

    async def call(self, target: CallTarget, body: bytes, *, timeout_s: float) -> tuple[int, bytes]:
        if target.service is not None:
            raise CallFailedError(f'service "{target.service[1]}" not found')
        place, _, path = target.url.removeprefix("https://").partition("/")
        if place == "127.0.0.1:2":
            raise CallFailedError("dial tcp 127.0.0.1:2: connect: connection refused")
        result = answer(path, body)
        if result is None:
            await asyncio.sleep(timeout_s)
            raise CallFailedError("context deadline exceeded")
        return result


class HookServer:
    """Serves webhooks to a real API server."""

    def __init__(self, runner: web.ServerRunner, names: dict[str, str]) -> None:
        self._runner = runner
        self.names = names

    @classmethod
    async def start(cls) -> "HookServer":
        certificate = issue(now=read_system_clock())
        runner = web.ServerRunner(web.Server(_serve, access_log=None))
        await runner.setup()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            chain, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
            chain.write_bytes(certificate.chain)
            key.write_bytes(certificate.key)
            context.load_cert_chain(chain, key)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        port = runner.addresses[0][1]
        bundle = base64.b64encode(certificate.authority).decode()
        return cls(runner, {"$hook": f"https://127.0.0.1:{port}", "$bundle": bundle})

    async def stop(self) -> None:
        assert self._runner.server is not None
        cut = cut_of(handler.transport for handler in self._runner.server.connections)
        await self._runner.cleanup()
        cut()  # an API server keeps connections open, and does not close them itself
        await asyncio.sleep(0)


async def _serve(request: web.BaseRequest) -> web.StreamResponse:
    result = answer(request.path, await request.read())
    if result is None:
        await asyncio.sleep(3)
        result = 200, b""
    return web.Response(status=result[0], body=result[1], content_type="application/json")
