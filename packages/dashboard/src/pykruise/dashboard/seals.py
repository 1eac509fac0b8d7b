"""Cookies that outlive the process: what a login was, encrypted and signed, so that any replica with the key goes on.

login ──seal()──▶ cookie ──opened()──▶ the same login, in this process or in another one

The key is a file: a Secret that all replicas mount, or on a laptop a file that only its owner reads. A cookie that is
changed, made with another key, or older than a day is none. What does not fit into a cookie stays in memory alone.
"""

import os
import secrets
from base64 import urlsafe_b64encode
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from cryptography.fernet import Fernet, InvalidToken

from pykruise.cli.errors import CommandError

MOST: Final = 3_800
"""Bytes of a cookie: browsers keep 4,096, with its name."""
KEY_BYTES: Final = 32


class SealedLogin(msgspec.Struct, frozen=True):
    """The content of a cookie."""

    token: str
    """The bearer token; on a laptop empty: the link was opened."""
    audience: str
    """API server that it is about: a cookie of another cluster's dashboard on the same machine does not count."""
    begun: float
    """Unix time of the login."""
    nonce: str
    """Makes each login another cookie, so that logging out ends one of them alone."""


class Seal:
    """`key`: 32 bytes or more. `audience`: see SealedLogin."""

    def __init__(self, key: bytes, audience: str) -> None:
        self._fernet = Fernet(urlsafe_b64encode(sha256(b"cookies" + key).digest()))
        self._audience = audience
        self.ticket_key = sha256(b"tickets" + key).digest()
        """Signs the questions before actions."""

    def seal(self, token: str, begun: float) -> str:
        """The cookie; empty: it would be too long."""
        login = SealedLogin(token, self._audience, begun, secrets.token_urlsafe(9))
        cookie = self._fernet.encrypt_at_time(msgspec.json.encode(login), int(begun)).decode()
        return cookie if len(cookie) <= MOST else ""

    def opened(self, cookie: str, now: float, *, lasts_s: float) -> SealedLogin | None:
        """The login that a cookie is about; None: it is none of ours, or too old."""
        try:
            login = msgspec.json.decode(
                self._fernet.decrypt_at_time(cookie.encode(), int(lasts_s), int(now)), type=SealedLogin
            )
        except (InvalidToken, ValueError, msgspec.DecodeError):
            return None
        return login if login.audience == self._audience else None


def key_of(path: Path) -> bytes:
    """The key in a file. Raises CommandError."""
    try:
        key = path.read_bytes()
    except OSError as error:
        raise CommandError(f"--session-key {path}: {error.strerror}") from error
    if len(key) < KEY_BYTES:
        raise CommandError(f"--session-key {path}: at least {KEY_BYTES} random bytes are wanted")
    return key


def own_key(folder: Path) -> bytes:
    """The key of this person's dashboards, which is made at the first start; where no file can be kept, a new one."""
    path = folder / "pykruise" / "dashboard.key"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
        key = path.read_bytes()
        if len(key) >= KEY_BYTES and not path.stat().st_mode & 0o077:
            return key
    return secrets.token_bytes(KEY_BYTES)
