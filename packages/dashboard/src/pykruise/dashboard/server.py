"""Requests of browsers: the page, its files, a login, streams of rows, what-if questions, and actions where enabled.

HttpServer (kube/http/server.py) ──▶ Guard: Host, Origin ──▶ Server.answer() ──▶ Response, or a RowStream
    GET  /                      the page, without data of the cluster
    GET  /assets/NAME           its files
    GET  /api/session           the user; 401: not logged in
    POST /api/login, /logout    a token for a cookie
    GET  /api/stream?page=…     rows, as server-sent events
    POST /api/plan              what if?
    POST /api/rights, /question, /act   with --actions: list the allowed actions; show the change; act as the user

The cookie has no Path, so browsers send it only to …/api/, under whatever path a proxy serves the page.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final, Protocol

import msgspec
import orjson

from pykruise.cli.errors import CommandError
from pykruise.dashboard.assets import Asset, Assets
from pykruise.dashboard.board import Board
from pykruise.dashboard.guard import Guard
from pykruise.dashboard.sessions import DashboardSession, LoginError, Sessions
from pykruise.dashboard.streams import RowStream
from pykruise.kube.client.transport import Response
from pykruise.kube.errors import ApiError, KubeError
from pykruise.kube.http.app import HttpLimits, Streamed
from pykruise.kube.http.wire import WireRequest

LIMITS: Final = HttpLimits(
    head=32 * 1024,
    body=64 * 1024,
    connections=512,
    share=0.25,
    first_s=10.0,
    read_s=10.0,
    answer_s=30.0,
    send_s=20.0,
    idle_s=120.0,
)
STREAMS_OF_USER: Final = 16
"""Maximum number of open pages of one user, in all browsers."""
CSP: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
_SAFE: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_PAGE: Final = {
    **_SAFE,
    "content-security-policy": CSP,
    "x-frame-options": "DENY",
    "cache-control": "no-cache",
}
_ASSET: Final = {**_SAFE, "cache-control": "public, max-age=31536000, immutable"}
_DATA: Final = {**_SAFE, "cache-control": "no-store", "content-type": "application/json"}


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the whole dashboard."""

    version: str
    cluster: str
    """The kubeconfig's context, or the address of the API server."""
    mode: str
    """laptop or cluster."""
    namespace: str = ""
    """The only namespace that is read; empty if all are read."""
    has_actions: bool = False


class Opened(msgspec.Struct, frozen=True):
    """An open page."""

    board: Board
    close: Callable[[], object]
    is_read: Callable[[], bool]
    """Whether all content of the page has been read at least once."""


class Pages(Protocol):
    """All content of the dashboard."""

    def open(self, query: Mapping[str, str], session: DashboardSession) -> Opened | None:
        """Return the board of a page; None if there is no such page. Raises CommandError for an invalid query."""
        ...

    def read_status(self) -> Mapping[str, Any]:
        """Return the state of the caches."""
        ...

    async def plan(self, asked: Mapping[str, Any], session: DashboardSession) -> Mapping[str, Any]:
        """Answer a what-if question. Raises CommandError, KubeError."""
        ...

    async def list_rights(self, asked: Mapping[str, Any], session: DashboardSession) -> Mapping[str, Any]:
        """Return the actions that the user may do to an object. Raises CommandError, KubeError."""
        ...

    async def ask_question(self, asked: Mapping[str, Any], session: DashboardSession) -> Mapping[str, Any]:
        """Return the change that an action would make, and its ticket. Raises CommandError, KubeError."""
        ...

    async def act(self, asked: Mapping[str, Any], session: DashboardSession) -> Mapping[str, Any]:
        """Do an action. Raises CommandError, KubeError."""
        ...


class Server:
    """An App (kube/http/app.py). `base_path` is the prefix of all paths, if a proxy does not remove it."""

    def __init__(
        self,
        pages: Pages,
        sessions: Sessions,
        assets: Assets,
        about: About,
        *,
        base_path: str = "",
    ) -> None:
        self._pages = pages
        self._sessions = sessions
        self.guard = Guard(("",))
        """Reject all requests until the address of the server is known."""
        self._assets = assets
        self._about = about
        self._base = base_path.rstrip("/")
        self._streams = Counter[str]()
        self._posts: Mapping[
            str, Callable[[Mapping[str, Any], DashboardSession], Awaitable[Mapping[str, Any]]]
        ] = {
            "/api/plan": pages.plan,
            **(
                {"/api/rights": pages.list_rights, "/api/question": pages.ask_question, "/api/act": pages.act}
                if about.has_actions
                else {}
            ),
        }

    # ── what HttpServer asks ─────────────────────────────────────────────────

    def admit(self, request: WireRequest) -> Response | None:
        """Return the response that rejects a request of another site or with another method; None if it is allowed."""
        refusal = self.guard.find_refusal(request)
        if refusal:
            return _build_error_response(403, refusal)
        if request.method not in ("GET", "HEAD", "POST"):
            return _build_error_response(405, "only GET and POST are supported")
        request.is_counted = not request.path.endswith("/api/stream")
        return None

    async def answer(self, request: WireRequest) -> Response | Streamed:
        """See the head of the module."""
        path = request.path
        if self._base:
            if path == self._base:
                return Response(308, {**_SAFE, "location": f"{self._base.rpartition('/')[2]}/"}, b"")
            if not path.startswith(f"{self._base}/"):
                return _build_error_response(404, "not here")
            path = path[len(self._base) :]
        if path.startswith("/api/"):
            return await self._answer_api(path, request)
        if request.method == "POST":
            return _build_error_response(405, "this path does not accept POST")
        if path == "/healthz":
            return Response(200, {**_SAFE, "content-type": "text/plain"}, b"ok\n")
        if path == "/":
            return _build_file_response(self._assets.shell, request, _PAGE)
        asset = self._assets.get(path.removeprefix("/assets/")) if path.startswith("/assets/") else None
        return (
            _build_file_response(asset, request, _ASSET)
            if asset is not None
            else _build_error_response(404, "there is no such page")
        )

    def failed(self, code: int, request: WireRequest) -> Response:
        """Return the response to a request that is malformed, exceeds a limit or failed."""
        return _build_error_response(
            code,
            "the response could not be computed"
            if code == 500
            else "the dashboard cannot process this request",
        )

    # ── data ─────────────────────────────────────────────────────────────────

    async def _answer_api(self, path: str, request: WireRequest) -> Response | Streamed:
        try:
            if path == "/api/login" and request.method == "POST":
                return await self._log_in(request)
            if path == "/api/logout" and request.method == "POST":
                await self._sessions.log_out(self._read_cookie(request))
                return _build_data_response(
                    {}, cookie=_build_cookie(self._sessions.cookie_name, "", request, lasts=False)
                )
            session = await self._find_session(request)
            if session is None:
                return _build_error_response(401, "log in first")
            if request.method == "POST":
                do = self._posts.get(path)
                return (
                    _build_data_response(await do(_parse_body(request), session))
                    if do is not None
                    else _build_error_response(404, "not here")
                )
            if path == "/api/session":
                return _build_data_response({**msgspec.to_builtins(self._about), "user": session.user.name})
            if path == "/api/stream":
                return self._stream(request, session)
        except (LoginError, CommandError) as error:
            return _build_error_response(401 if isinstance(error, LoginError) else 422, str(error))
        except ApiError as error:
            return _build_error_response(error.code if error.code in (403, 404, 409) else 502, str(error))
        except KubeError as error:
            return _build_error_response(502, f"the request to the API server failed: {error}")
        return _build_error_response(404, "there is no such page")

    async def _log_in(self, request: WireRequest) -> Response:
        token = _parse_body(request).get("token")
        if not isinstance(token, str):
            raise LoginError("a token is required")
        value = await self._sessions.log_in(token.strip())
        return _build_data_response({}, cookie=_build_cookie(self._sessions.cookie_name, value, request))

    async def _find_session(self, request: WireRequest) -> DashboardSession | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._about.mode == "cluster":
            return await self._sessions.find_by_header(token.strip())
        return await self._sessions.find_by_cookie(self._read_cookie(request))

    def _read_cookie(self, request: WireRequest) -> str:
        try:
            morsel = SimpleCookie(request.headers.get("cookie", "")).get(self._sessions.cookie_name)
        except CookieError:
            return ""
        return morsel.value if morsel is not None else ""

    def _stream(self, request: WireRequest, session: DashboardSession) -> Response | Streamed:
        user = session.user.name
        if self._streams[user] >= STREAMS_OF_USER:
            return _build_error_response(
                429, f"you have {STREAMS_OF_USER} pages open already: close one, and load this one again"
            )
        opened = self._pages.open(request.query, session)
        if opened is None:
            return _build_error_response(404, "there is no such page")
        self._streams[user] += 1

        is_open = True

        def close() -> None:
            nonlocal is_open
            if not is_open:
                return
            is_open = False
            self._streams[user] -= 1
            self._streams += Counter[str]()  # users without open streams are dropped
            opened.close()

        return RowStream(
            opened.board,
            session.access,
            is_read=opened.is_read,
            status=self._pages.read_status,
            still_good=lambda: self._sessions.is_still_good(session),
            on_close=close,
            last_id=request.headers.get("last-event-id", ""),
        )


def _parse_body(request: WireRequest) -> Mapping[str, Any]:
    """Return the body of a POST. Raises CommandError."""
    try:
        result = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        result = None
    if not isinstance(result, dict):
        raise CommandError("the body must be a JSON object")
    return result


def _build_cookie(name: str, value: str, request: WireRequest, *, lasts: bool = True) -> str:
    """Return the cookie. Scripts and other sites cannot use it. Unless the host is local, browsers send it only over
    TLS.
    """
    host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
    is_local = host in ("localhost", "127.0.0.1", "[::1]")
    secure = "" if is_local else "; Secure"
    return f"{name}={value}; HttpOnly; SameSite=Strict{secure}{'' if lasts else '; Max-Age=0'}"


def _build_file_response(asset: Asset, request: WireRequest, headers: Mapping[str, str]) -> Response:
    said = {**headers, "content-type": asset.content_type, "vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(200, {**said, "content-encoding": "gzip"}, asset.zipped)
    return Response(200, said, asset.body)


def _build_data_response(value: Mapping[str, Any], *, cookie: str = "") -> Response:
    return Response(200, {**_DATA, **({"set-cookie": cookie} if cookie else {})}, orjson.dumps(value))


def _build_error_response(code: int, message: str) -> Response:
    """Return an error for the page to show."""
    return Response(code, _DATA, orjson.dumps({"error": message}))
