"""Sessions: a cookie for each browser, and for each cookie the user, the user's access and the user's own client.

POST api/login {token} ──▶ Sessions.log_in() ──TokenReview, or the one-time token of a laptop──▶ DashboardSession
    ──▶ cookie

Tokens are kept in memory and, encrypted, in the cookie itself (seals.py), so that a login outlives the process and any
replica accepts it. Logs never contain tokens. A session ends when its token is no longer valid (reviewed once a minute
while the session is used), or after a day. A logout ends it in this process only: until the session would end, other
processes still accept a stolen copy of the cookie.
"""

import asyncio
import hashlib
import hmac
import secrets
import ssl
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import msgspec

from pykruise.dashboard.access import Access, DashboardUser, FullAccess, ReviewedAccess, send_review
from pykruise.dashboard.seals import COOKIE, Seal
from pykruise.kinds import use_stored_versions
from pykruise.kube.client.client import Client
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.clock import Clock, read_system_clock
from pykruise.kube.config.connection import Connection, make_bearer
from pykruise.kube.errors import KubeError
from pykruise.kube.http.transport import HttpTransport

LASTS_S: Final = 24 * 3600.0
REVIEWED_S: Final = 60.0
"""Seconds for which a token is accepted without another review."""
MOST: Final = 1_000
"""Maximum number of sessions. If there are more, the user with the most sessions loses the session that is unused for
the longest time.
"""
MOST_OF_USER: Final = 8
"""Maximum number of sessions of one user. A new session ends the user's session that is unused for the longest time."""


class LoginError(Exception):
    """The token is not valid. The text is for the person who entered it."""


class DashboardSession(msgspec.Struct, kw_only=True):
    """One browser, or one user behind a proxy that logs in for them."""

    user: DashboardUser
    access: Access
    client: Client
    """Client that reads and writes with the user's own permissions."""
    is_good: Callable[[], Awaitable[bool]]
    """Whether the token is still valid."""
    close: Callable[[], Awaitable[None]]
    begun: float
    used: float
    reviewed: float


class Door(Protocol):
    """Way to log in."""

    async def enter(self, token: str, now: float) -> DashboardSession:
        """Log in with a token. Raises LoginError, and KubeError when no API server responds."""
        ...

    async def enter_again(self, token: str, now: float) -> DashboardSession:
        """Log in with the facts that `seal_facts` returned for an earlier login. Raises the same errors as enter()."""
        ...

    def seal_facts(self, token: str) -> str:
        """Return the facts about a login that a sealed cookie contains."""
        ...


async def _allow_always() -> bool:
    return True


async def _do_nothing() -> None:
    return None


class LaptopDoor:
    """A link that opens once, for the person at this machine. `client` acts as the kubeconfig's user."""

    def __init__(self, client: Client, user: DashboardUser) -> None:
        self._client = client
        self._user = user
        self._token = ""

    def renew_token(self) -> str:
        """Return the token of the next link. The previous link becomes invalid."""
        self._token = secrets.token_urlsafe(32)
        return self._token

    async def enter(self, token: str, now: float) -> DashboardSession:
        """See Door."""
        expected, self._token = self._token, ""
        if not expected or not hmac.compare_digest(expected.encode(), token.encode()):
            self._token = expected  # the link stays valid after a wrong guess: there are 2^256 tokens
            raise LoginError(
                "this link was used already or has expired: for another link, press Enter in the"
                " terminal of the dashboard"
            )
        return await self.enter_again("", now)

    def seal_facts(self, token: str) -> str:
        """Return an empty text: the link opens only once, and the permissions are those of the kubeconfig."""
        return ""

    async def enter_again(self, token: str, now: float) -> DashboardSession:
        """See Door."""
        return DashboardSession(
            user=self._user,
            access=FullAccess(),
            client=self._client,
            is_good=_allow_always,
            close=_do_nothing,
            begun=now,
            used=now,
            reviewed=now,
        )


_REVIEWS_AT_ONCE: Final = 4
"""Maximum number of simultaneous reviews, so that many guessed tokens cannot overload the API server."""
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"


class TokenDoor:
    """Login with the user's bearer token, which the API server reviews. `client` may create TokenReviews."""

    def __init__(
        self,
        client: Client,
        connection: Connection,
        *,
        clock: Callable[[], float],
        transport_for: Callable[[Connection], HttpTransport] = HttpTransport,
    ) -> None:
        self._client = client
        self._connection = connection
        self._clock = clock
        self._transport_for = transport_for
        self._reviews = asyncio.Semaphore(_REVIEWS_AT_ONCE)
        self._ssl_context = drop_client_certificate(connection.ssl_context)
        """All sessions share one context, because the CA certificates in it take hundreds of kilobytes."""

    async def enter(self, token: str, now: float) -> DashboardSession:
        """See Door."""
        user = await self._review_token(token)
        if user is None:
            raise LoginError(
                "the API server rejects this token; create another: kubectl create token SERVICEACCOUNT"
            )
        own = Connection(
            server=self._connection.server,
            ssl_context=self._ssl_context,
            credentials=make_bearer(token),
            server_name=self._connection.server_name,
            proxy=self._connection.proxy,
        )
        transport = self._transport_for(own)

        async def is_good() -> bool:
            try:
                return await self._review_token(token) == user
            except KubeError:
                return False

        return DashboardSession(
            user=user,
            access=ReviewedAccess(self._client, user, clock=self._clock),
            client=Client(
                use_stored_versions(transport),
                user_agent="pykruise-dashboard",
                retry=RetryPolicy(reads=1, total_s=5.0),
            ),
            is_good=is_good,
            close=transport.close,
            begun=now,
            used=now,
            reviewed=now,
        )

    def seal_facts(self, token: str) -> str:
        """Return the token itself, which is reviewed again."""
        return token

    async def enter_again(self, token: str, now: float) -> DashboardSession:
        """See Door."""
        return await self.enter(token, now)

    async def _review_token(self, token: str) -> DashboardUser | None:
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            return None
        async with self._reviews:
            answer = await send_review(self._client, _TOKEN_REVIEWS, "TokenReview", {"token": token})
        status = answer.get("status") or {}
        result = status.get("user") or {}
        if not status.get("authenticated") or not result.get("username"):
            return None
        return DashboardUser(
            name=result["username"],
            uid=result.get("uid") or "",
            groups=tuple(result.get("groups") or ()),
            extra=result.get("extra") or {},
        )


def drop_client_certificate(context: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """Return a context that trusts the same CAs and has no client certificate. With the dashboard's certificate, a user
    would act as the dashboard.
    """
    if context is None:
        return None
    own = ssl.create_default_context()
    own.check_hostname, own.verify_mode = context.check_hostname, context.verify_mode
    if trusted := context.get_ca_certs(binary_form=True):
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        own.check_hostname, own.verify_mode = context.check_hostname, context.verify_mode
        own.load_verify_locations(cadata=b"".join(trusted))
    own.verify_flags = context.verify_flags
    return own


class Sessions:
    """All sessions. `clock` returns monotonic seconds. `seal` encrypts logins into cookies, so that they outlive the
    process; if it is None, all logins end with the process. `wall_clock` returns Unix time, for cookies.
    """

    def __init__(
        self,
        door: Door,
        *,
        clock: Callable[[], float],
        seal: Seal | None = None,
        wall_clock: Clock = read_system_clock,
    ) -> None:
        self._door = door
        self._seal = seal
        self.cookie_name = seal.cookie_name if seal is not None else COOKIE
        self._wall_clock = wall_clock
        self._ended: OrderedDict[str, None] = OrderedDict()
        """Cookies that were logged out in this process."""
        self._clock = clock
        self._sessions: dict[str, DashboardSession] = {}
        self._entering: dict[str, asyncio.Lock] = {}

    async def log_in(self, token: str) -> str:
        """Log in and return the value of the cookie. Raises LoginError, KubeError."""
        session = await self._door.enter(token, self._clock())
        sealed = self._seal.seal(self._door.seal_facts(token), self._wall_clock()) if self._seal else ""
        cookie = sealed or secrets.token_urlsafe(32)
        await self._keep(_hash_secret(cookie), session)
        return cookie

    async def find_by_cookie(self, cookie: str) -> DashboardSession | None:
        """Return the session of a browser; None if the browser is not logged in, or no longer. Raises KubeError."""
        if not cookie:
            return None
        key = _hash_secret(cookie)
        return await self._check_session(key) or await self._open_session(key, cookie)

    async def _open_session(self, key: str, cookie: str) -> DashboardSession | None:
        """Return the session of a login in another process, by its sealed cookie."""
        if self._seal is None or key in self._ended:
            return None
        login = self._seal.open_cookie(cookie, self._wall_clock(), lasts_s=LASTS_S)
        if login is None:
            return None
        lock = self._entering.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                if (known := await self._check_session(key)) is not None:
                    return known
                session = await self._door.enter_again(login.token, self._clock())
                session.begun -= max(self._wall_clock() - login.begun, 0.0)
                await self._keep(key, session)
                return session
        except LoginError:
            return None
        finally:
            self._entering.pop(key, None)

    async def find_by_header(self, token: str) -> DashboardSession | None:
        """Return the session of a user whose proxy sends the user's token with each request. Raises KubeError."""
        key = _hash_secret(f"header {token}")
        lock = self._entering.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                if (known := await self._check_session(key)) is not None:
                    return known
                await self._add(key, token)
                return self._sessions.get(key)
        except LoginError:
            return None
        finally:
            self._entering.pop(key, None)

    async def log_out(self, cookie: str) -> None:
        """End the session of a cookie."""
        await self._end(_hash_secret(cookie))
        self._ended[_hash_secret(cookie)] = None
        if len(self._ended) > 10 * MOST:
            self._ended.popitem(last=False)

    async def is_still_good(self, session: DashboardSession) -> bool:
        """Whether the session is still logged in. Streams check this, because they run for hours."""
        for key, value in tuple(self._sessions.items()):
            if value is session:
                return await self._check_session(key) is not None
        return False

    async def close(self) -> None:
        """End all sessions."""
        for key in tuple(self._sessions):
            await self._end(key)

    async def _add(self, key: str, token: str) -> None:
        await self._keep(key, await self._door.enter(token, self._clock()))

    async def _keep(self, key: str, session: DashboardSession) -> None:
        self._sessions[key] = session
        own = self._of_user(session.user.name)
        if len(own) > MOST_OF_USER:
            await self._end(min(own, key=lambda text: self._sessions[text].used))
        elif len(self._sessions) > MOST:
            counts = Counter(session.user.name for session in self._sessions.values())
            ((user, _),) = counts.most_common(1)
            await self._end(min(self._of_user(user), key=lambda text: self._sessions[text].used))

    def _of_user(self, name: str) -> list[str]:
        return [key for key, session in self._sessions.items() if session.user.name == name]

    async def _check_session(self, key: str) -> DashboardSession | None:
        session = self._sessions.get(key)
        if session is None:
            return None
        now = self._clock()
        if now - session.begun > LASTS_S:
            await self._end(key)
            return None
        session.used = now
        if now - session.reviewed > REVIEWED_S:
            session.reviewed = now
            if not await session.is_good():
                await self._end(key)
                return None
        return session if key in self._sessions else None

    async def _end(self, key: str) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            await session.close()


def _hash_secret(secret: str) -> str:
    """Stored form of a cookie; the duration of a comparison reveals nothing about the cookie."""
    return hashlib.sha256(secret.encode()).hexdigest()
