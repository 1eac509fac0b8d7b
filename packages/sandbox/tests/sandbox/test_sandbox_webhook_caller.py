"""Webhooks over HTTPS: trusted certificates, and errors without an answer."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from pykruise.kube.clock import read_system_clock
from pykruise.sandbox.apiserver.webhooks import CallFailedError, CallTarget
from pykruise.sandbox.certificates import issue
from pykruise.sandbox.webhook_caller import WebhookCaller

CERTIFICATE = issue(now=read_system_clock(), hosts=("127.0.0.1", "web.team.svc"))
OTHER = issue(now=read_system_clock())

pytestmark = pytest.mark.real_time


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    match request.path:
        case "/slow":
            await asyncio.sleep(5)
            return web.Response()
        case "/text":
            return web.Response(status=500, text="went wrong")
        case "/json":
            return web.json_response({"went": "wrong"}, status=500)
        case _:
            return web.Response(body=await request.read() + b" " + request.query_string.encode())


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (tmp_path / "crt").write_bytes(CERTIFICATE.chain)
    (tmp_path / "key").write_bytes(CERTIFICATE.key)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.fixture
async def caller_for() -> AsyncIterator[Callable[..., WebhookCaller]]:
    made: list[WebhookCaller] = []

    def make(**settings: object) -> WebhookCaller:
        made.append(WebhookCaller(**settings))  # type: ignore[arg-type]  # as the test has it
        return made[-1]

    yield make
    for caller in made:
        await caller.close()


def at(port: int, path: str = "", bundle: bytes = CERTIFICATE.authority) -> CallTarget:
    return CallTarget(url=f"https://127.0.0.1:{port}/{path}", ca_bundle=bundle)


async def test_a_webhook_is_posted_to_with_its_timeout(
    port: int, caller_for: Callable[..., WebhookCaller]
) -> None:
    assert await caller_for().call(at(port), b"body", timeout_s=7) == (200, b"body timeout=7s")


async def test_only_plain_text_of_a_failure_is_passed_on(
    port: int, caller_for: Callable[..., WebhookCaller]
) -> None:
    caller = caller_for()
    assert await caller.call(at(port, "text"), b"", timeout_s=7) == (500, b"went wrong")
    assert await caller.call(at(port, "json"), b"", timeout_s=7) == (500, b"")


async def test_a_certificate_of_an_authority_that_is_not_in_the_bundle_is_refused(
    port: int, caller_for: Callable[..., WebhookCaller]
) -> None:
    with pytest.raises(CallFailedError, match="x509: certificate signed by unknown authority"):
        await caller_for().call(at(port, bundle=OTHER.authority), b"", timeout_s=7)


async def test_a_webhook_that_takes_too_long_is_given_up(
    port: int, caller_for: Callable[..., WebhookCaller]
) -> None:
    with pytest.raises(CallFailedError, match="context deadline exceeded"):
        await caller_for().call(at(port, "slow"), b"", timeout_s=0.05)


async def test_a_service_is_found_by_its_name_and_must_have_a_certificate_for_it(
    port: int, caller_for: Callable[..., WebhookCaller]
) -> None:
    # given
    caller = caller_for(services={(ns, "web", 443): ("127.0.0.1", port) for ns in ("team", "other")})

    def service(namespace: str) -> CallTarget:
        url = f"https://web.{namespace}.svc:443/x"
        return CallTarget(url=url, service=(namespace, "web", 443), ca_bundle=CERTIFICATE.authority)

    # then
    assert (await caller.call(service("team"), b"", timeout_s=7))[0] == 200
    with pytest.raises(CallFailedError, match="not valid for the name"):
        await caller.call(service("other"), b"", timeout_s=7)
    with pytest.raises(CallFailedError, match='service "web" not found'):
        await caller.call(service("none"), b"", timeout_s=7)


async def test_a_closed_port_is_an_error_in_the_words_of_go(
    caller_for: Callable[..., WebhookCaller], unused_tcp_port: int
) -> None:
    with pytest.raises(CallFailedError, match=r"dial tcp 127.0.0.1:\d+: connect: connection refused"):
        await caller_for().call(at(unused_tcp_port), b"", timeout_s=7)
