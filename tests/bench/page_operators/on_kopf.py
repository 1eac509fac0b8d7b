"""The operator in kopf, for `kopf run`. It writes pages with aiohttp, which kopf imports as well.

A client of its own would add memory, and kopf's login handler that reads kubeconfigs needs no other client either.
"""

import base64
import ssl
from typing import Any

import aiohttp
import kopf

SITES = ("example.com", "v1", "sites")


@kopf.on.login()
async def login(**options: Any) -> kopf.ConnectionInfo | None:
    """Read the kubeconfig of $KUBECONFIG."""
    return kopf.login_with_kubeconfig(**options)


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """Open the connection for pages."""
    login_info = kopf.login_with_kubeconfig(settings=settings)
    assert login_info is not None
    context = ssl.create_default_context(cadata=_authority(login_info))
    memo.session = aiohttp.ClientSession(
        base_url=login_info.server,
        headers={"authorization": f"Bearer {login_info.token}"},
        connector=aiohttp.TCPConnector(ssl=context),
    )


def _authority(info: kopf.ConnectionInfo) -> str:
    data = info.ca_data
    assert data is not None
    text = data if isinstance(data, bytes) else data.encode()
    return (text if text.startswith(b"-----") else base64.b64decode(text)).decode()


@kopf.on.cleanup()
async def close(memo: kopf.Memo, **_: Any) -> None:
    """Close the connection for pages."""
    await memo.session.close()


@kopf.on.resume(*SITES)
@kopf.on.create(*SITES)
@kopf.on.update(*SITES, field="spec")
async def write_page(
    name: str,
    namespace: str,
    spec: kopf.Spec,
    meta: kopf.Meta,
    patch: kopf.Patch,
    memo: kopf.Memo,
    reason: str,
    **_: Any,
) -> None:
    """Create the page, or patch it."""
    body: dict[str, Any] = {"metadata": {"name": f"{name}-page"}, "data": {"index.html": spec["html"]}}
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    kopf.adopt(body)
    status = 404
    if reason != "create":
        status = await _send(
            memo.session, "PATCH", f"{path}/{name}-page", body, "application/merge-patch+json"
        )
    if status == 404:
        status = await _send(memo.session, "POST", path, body, "application/json")
    if status >= 400:
        raise kopf.TemporaryError(f"the page was refused with {status}", delay=1)
    patch.status["observedGeneration"] = meta["generation"]


async def _send(
    session: aiohttp.ClientSession, method: str, path: str, body: dict[str, Any], content: str
) -> int:
    async with session.request(method, path, json=body, headers={"content-type": content}) as answer:
        await answer.read()
        return answer.status
