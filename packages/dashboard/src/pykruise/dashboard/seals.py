"""Cookies that outlive the process: an encrypted and signed login, which any replica with the key accepts.

login ──seal()──▶ cookie ──open_cookie()──▶ the same login, in this process or in another one

The key is a file: a Secret that all replicas mount, or on a laptop a file that only its owner can read. A cookie that
was changed, was made with another key, or is older than a day is invalid. A login that does not fit into a cookie
stays in memory only.
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

COOKIE: Final = "pykruise"
"""Name of the cookie, or the beginning of its name."""
MOST: Final = 3_800
"""Maximum bytes of a cookie: browsers keep 4,096, including its name."""
KEY_BYTES: Final = 32


class SealedLogin(msgspec.Struct, frozen=True):
    """The content of a cookie."""

    token: str
    """The bearer token; empty on a laptop, where the user logged in by opening the link."""
    audience: str
    """API server of the login. A cookie of another cluster's dashboard on the same machine is invalid."""
    begun: float
    """Unix time of the login."""
    nonce: str
    """Makes the cookie of each login different, so that a logout ends one login only."""


class Seal:
    """Encrypts and signs cookies. `key`: 32 bytes or more. `audience`: see SealedLogin. `is_key_kept`: whether the
    dashboard has the same key after its next start.
    """

    def __init__(self, key: bytes, audience: str, *, is_key_kept: bool = True) -> None:
        self._fernet = Fernet(urlsafe_b64encode(sha256(b"cookies" + key).digest()))
        self._audience = audience
        named = sha256(b"names" + (key if is_key_kept else b"") + audience.encode())
        self.cookie_name = f"{COOKIE}-{named.hexdigest()[:8]}"
        """Name of the cookie. Browsers send the cookies of a host to each of its ports, so dashboards of different
        clusters on one machine need different names. A name with a new key for each start would leave one cookie in
        the browser for each start.
        """
        self.ticket_key = sha256(b"tickets" + key).digest()
        """Key that signs the tickets of questions (asking.py)."""

    def seal(self, token: str, begun: float) -> str:
        """Return the cookie; empty if it would be too long."""
        login = SealedLogin(token, self._audience, begun, secrets.token_urlsafe(9))
        cookie = self._fernet.encrypt_at_time(msgspec.json.encode(login), int(begun)).decode()
        return cookie if len(cookie) <= MOST else ""

    def open_cookie(self, cookie: str, now: float, *, lasts_s: float) -> SealedLogin | None:
        """Return the login in a cookie; None if the cookie is invalid or too old."""
        try:
            login = msgspec.json.decode(
                self._fernet.decrypt_at_time(cookie.encode(), int(lasts_s), int(now)), type=SealedLogin
            )
        except (InvalidToken, ValueError, msgspec.DecodeError):
            return None
        return login if login.audience == self._audience else None


def key_of(path: Path) -> bytes:
    """Return the key in a file. Raises CommandError."""
    try:
        key = path.read_bytes()
    except OSError as error:
        raise CommandError(f"--session-key {path}: {error.strerror}") from error
    if len(key) < KEY_BYTES:
        raise CommandError(f"--session-key {path}: at least {KEY_BYTES} random bytes are required")
    return key


def own_key(folder: Path) -> bytes:
    """Return the key for all dashboards of this person. It is created at the first start. If its file cannot be
    written, return a new key.
    """
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
