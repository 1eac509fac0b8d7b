"""Id tokens of kubeconfigs with the auth-provider `oidc`, renewed with their refresh token.

settings ──▶ OidcTokens.read_current() ──▶ the id token, if it is still valid
             └──▶ the issuer's token endpoint (OpenID Connect Discovery) ──▶ a new id token ──▶ store()

Same rules as client-go's plugin, which reads and writes the same fields. Many issuers accept a refresh token only once,
so the new one must be stored: otherwise kubectl could not renew the token afterwards. The issuer is always verified:
with idp-certificate-authority(-data), else with the system's CAs.
"""

import base64
import binascii
import json
import logging
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final

from pykruise.kube.clock import Clock, Instant
from pykruise.kube.config.kubeconfig_files import format_one_line
from pykruise.kube.errors import ConfigurationError

__all__ = ["OidcTokens"]

_log = logging.getLogger(__name__)

_EARLY_S: Final = 60.0
"""A token that expires within this time is renewed."""
_TIMEOUT_S: Final = 20.0
_MOST_BYTES: Final = 1 << 20
"""Largest accepted response of an issuer."""


class OidcTokens:
    """The tokens of one user. `tls` verifies the issuer. Each error begins with `where`. `store` writes new values of
    the settings; it raises OSError or ConfigurationError when it cannot.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        tls: ssl.SSLContext,
        clock: Clock,
        where: str,
        store: Callable[[Mapping[str, str]], None],
    ) -> None:
        self._settings = settings
        self._store = store
        self._tls = tls
        self._clock = clock
        self._where = where
        self._id_token = str(settings.get("id-token") or "")
        self._refresh_token = str(settings.get("refresh-token") or "")

    def read_current(self) -> tuple[str, Instant]:
        """Return the id token and its expiry. Renews a token that expires soon. Blocks. Raises ConfigurationError."""
        ends = self._end_of(self._id_token) if self._id_token else 0.0
        if ends - self._clock() < _EARLY_S:
            self._renew()
            ends = self._end_of(self._id_token)
        return self._id_token, ends

    def _end_of(self, token: str) -> Instant:
        """Return the claim `exp`. The API server verifies the signature."""
        try:
            _, claims, _ = token.split(".")
            return float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            raise ConfigurationError(f"{self._where}: id-token is not a JWT; log in again") from error

    def _renew(self) -> None:
        issuer = str(self._settings.get("idp-issuer-url") or "").rstrip("/")
        client = str(self._settings.get("client-id") or "")
        if not self._refresh_token or not issuer or not client:
            raise ConfigurationError(
                f"{self._where}: id-token has expired, and the kubeconfig lacks idp-issuer-url, client-id or"
                " refresh-token to renew it; log in again"
            )
        discovered = self._request(f"{issuer}/.well-known/openid-configuration")
        form = {
            "grant_type": "refresh_token",
            "refresh_token": self._refresh_token,
            "client_id": client,
            "client_secret": str(self._settings.get("client-secret") or ""),
        }
        endpoint = str(discovered.get("token_endpoint") or "")
        answer = self._request(endpoint, {name: value for name, value in form.items() if value})
        if not isinstance(answer.get("id_token"), str):
            raise ConfigurationError(f"{self._where}: the response of {issuer} has no id_token; log in again")
        self._id_token = answer["id_token"]
        self._refresh_token = str(answer.get("refresh_token") or self._refresh_token)
        try:
            self._store({"id-token": self._id_token, "refresh-token": self._refresh_token})
        except (OSError, ConfigurationError) as error:
            _log.warning(
                "%s: the new tokens cannot be stored, so other programs may need a new login: %s",
                self._where,
                format_one_line(error),
            )

    def _request(self, url: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Send a GET or, with a `form`, a POST; return the JSON object in the response."""
        if not url.startswith("https://"):
            raise ConfigurationError(f"{self._where}: {url!r} is not an https:// URL")
        data = None if form is None else urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(url, data, headers={"Accept": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=self._tls) as answer:
                document = json.loads(answer.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            words = format_one_line(error.read(_MOST_BYTES).decode("utf-8", "replace"))
            raise ConfigurationError(
                f"{self._where}: the token was not renewed: {url} responded with status code {error.code}: {words}"
            ) from error
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"{self._where}: the token was not renewed: {url}: {format_one_line(error)}"
            ) from error
        if not isinstance(document, dict):
            raise ConfigurationError(
                f"{self._where}: the token was not renewed: the response of {url} is not a JSON object"
            )
        return document
