"""The credentials that a pull may use: secrets that the manager copied, and credentials of the node itself.

NodeImage.pullSecrets ──▶ Keyring.list_credentials_for(): Secrets (kept for minutes), docker configuration, plugins
                          └──▶ Credential …, the longest matching name first

A secret that cannot be read is left out with a warning: the image may be public, or another secret may suffice.
"""

import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.agent.rules.image_pulls import SecretName, WantedPull
from pykruise.agent.rules.pull_secrets import may_use, read_served_namespace
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock, Instant
from pykruise.kube.documents import decode
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import SECRETS
from pykruise.kube.values.image_references import ImageName
from pykruise.kube.values.registry_credentials import (
    Credential,
    list_matching_credentials,
    read_secret_credentials,
)

_log = logging.getLogger(__name__)

KEPT_S: Final = (300.0, 600.0)
"""Range of the random number of seconds for which a secret is cached. Same range as in OpenKruise's agent."""

Provider = Callable[[str], Awaitable[Sequence[Credential]]]
"""Returns the node's own credentials for an image (full name, without tag)."""


class _Kept(msgspec.Struct, frozen=True):
    credentials: Sequence[Credential]
    namespace: str
    """Namespace whose requests may use the credentials."""
    until: Instant


class Keyring:
    """Credentials for pulls, from secrets and from `providers`, which return the node's own credentials.

    If the matching names of two credentials have the same length, the credential of the secret is tried first.
    """

    def __init__(
        self, client: Client, *, clock: Clock, rng: random.Random, providers: Sequence[Provider] = ()
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._providers = providers
        self._kept: dict[SecretName, _Kept] = {}

    async def list_credentials_for(
        self, image: ImageName, wanted: WantedPull, secrets: Sequence[SecretName]
    ) -> list[Credential]:
        """Return matching credentials in the order in which to try them; empty to pull without credentials.

        Uses only those secrets of the image that may be used for this tag (agent/rules/pull_secrets.py).
        """
        credentials: list[Credential] = []
        for secret in secrets:
            kept = await self._read_secret(secret)
            if kept is not None and may_use(wanted, kept.namespace):
                credentials += kept.credentials
        for provider in self._providers:
            credentials += await provider(image.repository)
        return list(dict.fromkeys(list_matching_credentials(credentials, image.repository)))

    def forget(self, secrets: Sequence[SecretName]) -> None:
        """Read these secrets again at the next pull, because a pull with them failed."""
        for secret in secrets:
            self._kept.pop(secret, None)

    def retain(self, wanted: Mapping[str, Sequence[SecretName]]) -> None:
        """Forget all secrets except these."""
        names = {secret for secrets in wanted.values() for secret in secrets}
        self._kept = {secret: kept for secret, kept in self._kept.items() if secret in names}

    async def _read_secret(self, secret: SecretName) -> _Kept | None:
        """Return the credentials of a secret; None when it cannot be read."""
        kept, now = self._kept.get(secret), self._clock()
        if kept is not None and kept.until - KEPT_S[1] <= now < kept.until:  # not if the clock was set back
            return kept
        try:
            document = decode(await self._client.get(SECRETS, secret.namespace, secret.name))
        except KubeError as error:
            _log.warning("pull secret %s/%s cannot be read: %s", secret.namespace, secret.name, error)
            return None
        until = now + self._rng.uniform(*KEPT_S)
        kept = _Kept(read_secret_credentials(document), read_served_namespace(document), until)
        self._kept[secret] = kept
        return kept
