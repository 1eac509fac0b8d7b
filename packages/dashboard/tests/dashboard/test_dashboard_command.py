"""`pykruise dashboard` on the command line: the errors, and how the dashboard is served."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from pykruise.cli.errors import CommandError
from pykruise.cli.main import app
from pykruise.dashboard.serve import DashboardOptions, serve_dashboard
from pykruise.dashboard.server import _build_cookie
from pykruise.kube.clock import read_system_clock
from pykruise.kube.config.connection import Connection
from pykruise.kube.http.wire import WireRequest
from pykruise.sandbox.certificates import issue
from pykruise.testing.http import HttpSandbox
from support.dashboards import dashboard

NOWHERE = Connection(server="http://127.0.0.1:1")


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"address": "0.0.0.0"}, "--shared"),
        ({"tls_cert": Path("a")}, "give both --tls-cert and --tls-key"),
        ({"base_path": "kruise"}, "must begin with a slash"),
        ({}, "the request to the cluster failed"),
    ],
    ids=["for others", "half a certificate", "no path", "no cluster"],
)
async def test_wrong_flags_are_refused_with_a_remedy(options: dict[str, object], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        async with serve_dashboard(NOWHERE, DashboardOptions(**options)):
            pass


@pytest.mark.real_time
def test_an_error_is_reported_in_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["dashboard", "--kubeconfig", str(tmp_path / "none")])
    assert done.exit_code == 1
    assert done.output.startswith("error: ")
    assert done.output.count("\n") == 1


def test_the_help_shows_the_flags_of_the_dashboard() -> None:
    assert "--shared" in CliRunner().invoke(app, ["dashboard", "--help"]).output


@pytest.mark.real_time
async def test_the_dashboard_serves_tls_and_reloads_its_certificate(tmp_path: Path) -> None:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def write() -> str:
        made = issue(now=read_system_clock())
        cert.write_bytes(made.chain)
        key.write_bytes(made.key)
        return made.chain.decode()

    async def shown(port: int) -> str:
        import ssl

        return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))

    first = write()
    with HttpSandbox(tmp_path / "kubeconfig", nodes=0):
        async with dashboard(tmp_path / "kubeconfig", tls_cert=cert, tls_key=key) as served:
            assert served.url.startswith("https://")
            async with aiohttp.ClientSession() as http, http.get(f"{served.url}healthz", ssl=False) as answer:
                assert await answer.text() == "ok\n"
            assert (await shown(served.port)).split() == first[: first.index("-----END") + 25].split()
            second = write()
            assert (await shown(served.port)).split() == second[: second.index("-----END") + 25].split()


@pytest.mark.parametrize(
    ("host", "is_secure"),
    [
        ("kruise.example", True),
        ("10.0.0.5:8080", True),
        ("localhost:8080", False),
        ("127.0.0.1:9", False),
        ("[::1]:8", False),
    ],
)
def test_the_session_cookie_is_secure_except_on_localhost(host: str, is_secure: bool) -> None:
    said = _build_cookie("pykruise", "value", WireRequest("POST", "/api/login", {}, {"host": host}))
    assert ("Secure" in said) is is_secure
