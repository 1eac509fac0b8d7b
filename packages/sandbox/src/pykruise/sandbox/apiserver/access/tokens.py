"""Tokens of service accounts: issued on request, verified by their signature.

    POST serviceaccounts/NAME/token ──▶ Tokens.issue() ──▶ a signed JWT
    Authorization: Bearer JWT       ──▶ Tokens.user_of() ──▶ User, or None

The claims are those of a real API server. The key is only in memory: a restart of the server invalidates all tokens.
"""

import base64
import binascii
import hashlib
import hmac
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.clock import Clock
from pykruise.kube.ids import Key
from pykruise.sandbox.apiserver.access.users import User, make_account_user
from pykruise.sandbox.apiserver.objects.metadata import make_uid
from pykruise.sandbox.apiserver.objects.storage import Stored

AUDIENCE: Final = "https://kubernetes.default.svc"
_ACCOUNTS: Final = "serviceaccounts"
_HEADER: Final = {"alg": "HS256", "typ": "JWT"}
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"

Find = Callable[[str, Key], Stored | None]


class Bound(msgspec.Struct, frozen=True):
    """Object to which a token is bound, besides its service account. The object's deletion invalidates the token."""

    shelf: str
    name: str
    uid: str


class Tokens:
    """Issues tokens and verifies them. `find` looks up an object in the storage."""

    def __init__(self, find: Find, *, clock: Clock, rng: random.Random) -> None:
        self._find = find
        self._clock = clock
        self._rng = rng
        self._key = b""
        """Created with the first token, so that a sandbox without tokens draws no random numbers for the key."""

    def issue(
        self, account: Stored, *, audiences: tuple[str, ...], seconds: int, bound: Bound | None = None
    ) -> str:
        """Issue a token for a service account."""
        self._key = self._key or self._rng.randbytes(32)
        now = int(self._clock())
        namespace, name = account.key.namespace, account.key.name
        kubernetes: dict[str, Any] = {
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": account.uid},
        }
        if bound is not None:
            kubernetes[bound.shelf.removesuffix("s")] = {"name": bound.name, "uid": bound.uid}
        claims = {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": AUDIENCE,
            "jti": make_uid(self._rng),
            "kubernetes.io": kubernetes,
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        signed = f"{_encode_base64(orjson.dumps(_HEADER))}.{_encode_base64(orjson.dumps(claims))}"
        return f"{signed}.{_encode_base64(self._sign(signed))}"

    def user_of(self, token: str) -> User | None:
        """Return the user of the token; None when the token is unknown or has expired."""
        if not self._key:
            return None
        signed, _, signature = token.rpartition(".")
        # Compare in constant time, so that the duration does not reveal how much of a guess was right.
        expected = _encode_base64(self._sign(signed)).encode()
        if not signed or not hmac.compare_digest(signature.encode("utf-8", "surrogateescape"), expected):
            return None
        claims = _decode_base64_json(signed.partition(".")[2])
        if claims is None or not claims["nbf"] <= self._clock() < claims["exp"]:
            return None
        if AUDIENCE not in claims["aud"]:
            return None
        return self._find_live_user(claims)

    def _find_live_user(self, claims: Mapping[str, Any]) -> User | None:
        kubernetes = claims["kubernetes.io"]
        namespace, account = kubernetes["namespace"], kubernetes["serviceaccount"]
        stored = self._find(_ACCOUNTS, Key(namespace, account["name"]))
        if stored is None or stored.uid != account["uid"]:
            return None
        extra = {_CREDENTIAL: (f"JTI={claims['jti']}",)}
        for kind in ("pod", "secret"):
            if (bound := kubernetes.get(kind)) is not None:
                there = self._find(f"{kind}s", Key(namespace, bound["name"]))
                if there is None or there.uid != bound["uid"]:
                    return None
                if kind == "pod":
                    extra["authentication.kubernetes.io/pod-name"] = (bound["name"],)
                    extra["authentication.kubernetes.io/pod-uid"] = (bound["uid"],)
        user = make_account_user(namespace, account["name"], uid=account["uid"])
        return msgspec.structs.replace(user, extra=extra)

    def _sign(self, signed: str) -> bytes:
        return hmac.new(self._key, signed.encode("utf-8", "surrogateescape"), hashlib.sha256).digest()


def _encode_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode_base64_json(text: str) -> dict[str, Any] | None:
    try:
        result = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, orjson.JSONDecodeError, UnicodeEncodeError):
        return None
    return result if isinstance(result, dict) else None
