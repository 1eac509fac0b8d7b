"""Credentials for pulling an image from a registry, read from pull secrets and docker configurations.

Secret, config.json ──▶ read_credentials() ──▶ Credential (where, user, password)
                    ──▶ list_matching_credentials(image)

Pure. This is the rule of Kubernetes' docker keyring: an entry names a registry, with or without the beginning of a
path; parts of its host may be `*`; the credential with the longest matching name comes first; `auth` replaces
`username` and `password`. Invalid entries are left out.
"""

import binascii
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from pykruise.kube.documents import decode, get_path

__all__ = ["Credential", "list_matching_credentials", "read_credentials", "read_secret_credentials"]

_DOCKER_HUB: Final = ("docker.io", "index.docker.io")


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials for a registry."""

    where: str
    """Registry, with or without a path: `registry.example.com`, `*.example.com:5000/team`."""
    username: str = ""
    password: str = ""
    identity_token: str = ""
    registry_token: str = ""

    @property
    def text(self) -> str:
        """`user:password`."""
        return f"{self.username}:{self.password}"


def read_secret_credentials(secret: Mapping[str, Any]) -> list[Credential]:
    """Return the credentials in a Secret of type dockerconfigjson or dockercfg."""
    data = secret.get("data") or {}
    text = data.get(".dockerconfigjson") or data.get(".dockercfg")
    try:
        config = decode(b64decode(text or ""))
    except (ValueError, binascii.Error):
        return []
    return read_credentials(config)


def read_credentials(config: Any) -> list[Credential]:
    """Return the credentials in a docker configuration, with or without `auths` around its entries."""
    if not isinstance(config, Mapping):
        return []
    entries = get_path(config, "auths") or config
    return list(_read_entries(entries)) if isinstance(entries, Mapping) else []


def _read_entries(entries: Mapping[str, Any]) -> Iterator[Credential]:
    for where, entry in entries.items():
        if not isinstance(entry, Mapping):
            continue
        user, password = entry.get("username"), entry.get("password")
        if (auth := entry.get("auth")) and isinstance(auth, str):
            try:
                user, password = _parse_auth(auth)
            except ValueError:
                continue
        credential = Credential(
            where=_normalize(where),
            username=str(user or ""),
            password=str(password or ""),
            identity_token=str(entry.get("identitytoken") or ""),
            registry_token=str(entry.get("registrytoken") or ""),
        )
        if credential.username or credential.identity_token or credential.registry_token:
            yield credential


def _parse_auth(text: str) -> tuple[str, str]:
    """Return the user and the password in base64, with or without padding. Raises ValueError."""
    joined = text.replace("\r", "").replace("\n", "")
    padding = "" if joined.endswith("=") else "=" * (-len(joined) % 4)
    user, colon, password = b64decode(joined + padding, validate=True).decode().partition(":")
    if not colon:
        raise ValueError("no colon between user and password")
    return user, password


def _normalize(where: str) -> str:
    """Return the registry without its scheme, and without a path that only names the API version."""
    where = where.removeprefix("https://").removeprefix("http://")
    host, slash, path = where.partition("/")
    for version in ("v1", "v2"):
        if path == version or path.startswith(f"{version}/"):
            path = path[len(version) + 1 :]
    return f"{host}/{path}" if slash and path else host


def list_matching_credentials(credentials: Iterable[Credential], repository: str) -> list[Credential]:
    """Return the credentials for an image, the longest matching name first. `repository`: the full name,
    `docker.io/library/nginx`.
    """
    result = [credential for credential in credentials if _is_for(credential.where, repository)]
    return sorted(result, key=lambda credential: -len(credential.where))


def _is_for(where: str, repository: str) -> bool:
    host, _, path = where.partition("/")
    image_host, _, image_path = repository.partition("/")
    if host in _DOCKER_HUB:
        host = _DOCKER_HUB[0]
    return image_path.startswith(path) and _is_host(host, image_host)


def _is_host(pattern: str, host: str) -> bool:
    wanted, port = _split_host(pattern)
    names, other_port = _split_host(host)
    return (
        port == other_port
        and len(wanted) == len(names)
        and all(fnmatchcase(name, part) for part, name in zip(wanted, names, strict=True))
    )


def _split_host(host: str) -> tuple[Sequence[str], str]:
    name, _, port = host.partition(":")
    return name.split("."), port
