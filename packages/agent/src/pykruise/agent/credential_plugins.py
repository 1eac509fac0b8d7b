"""Credentials of the node itself: a docker configuration, and the kubelet's credential provider plugins.

CredentialProviderConfig (YAML), programs ──▶ load_providers() ──▶ Provider: image ──▶ Credential …

A plugin is a program that reads the image's name as JSON and prints credentials. The kubelet uses the same plugins.
The credentials are cached for the duration that the plugin prints. If a plugin fails, the pull goes on without its
credentials, because the image may be public.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from pykruise.agent.keyring import Provider
from pykruise.kube.errors import ConfigurationError
from pykruise.kube.values.durations import parse_duration
from pykruise.kube.values.registry_credentials import Credential, list_matching_credentials, read_credentials

_log = logging.getLogger(__name__)

TIMEOUT_S: Final = 60.0
KINDS: Final = tuple(
    f"credentialprovider.kubelet.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1")
)


class _Kept(msgspec.Struct, frozen=True):
    credentials: Sequence[Credential]
    until: float
    """Time of the monotonic clock, which has no steps."""


class Plugin:
    """A credential provider of a CredentialProviderConfig."""

    def __init__(self, entry: Mapping[str, Any], folder: Path, *, monotonic: Callable[[], float]) -> None:
        self.name = str(entry["name"])
        self._program = folder / self.name
        self._version = str(entry["apiVersion"])
        self._arguments = [str(word) for word in entry.get("args") or ()]
        self._environment = {
            str(variable["name"]): str(variable.get("value", "")) for variable in entry.get("env") or ()
        }
        self._images = [Credential(where=str(image), username=self.name) for image in entry["matchImages"]]
        self._kept_s = parse_duration(str(entry.get("defaultCacheDuration") or "0s"))
        self._monotonic = monotonic
        self._kept: dict[str, _Kept] = {}

    async def __call__(self, image: str) -> Sequence[Credential]:
        """Return the plugin's credentials for an image; empty for images that the plugin does not match."""
        if not list_matching_credentials(self._images, image):
            return ()
        now = self._monotonic()
        self._kept = {key: kept for key, kept in self._kept.items() if now < kept.until}
        for key in (image, image.partition("/")[0], ""):
            if key in self._kept:
                return self._kept[key].credentials
        try:
            answer = orjson.loads(await self._run_program(image))
            credentials = read_credentials({"auths": answer.get("auth") or {}})
            key = {"Image": image, "Registry": image.partition("/")[0], "Global": ""}[answer["cacheKeyType"]]
            kept_s = parse_duration(str(answer.get("cacheDuration") or "") or f"{self._kept_s:g}s")
        except (OSError, ValueError, KeyError, AttributeError) as error:
            _log.warning(
                "credential provider %s returned no credentials: %s: %s",
                self.name,
                type(error).__name__,
                error,
            )
            return ()
        if kept_s > 0:
            self._kept[key] = _Kept(credentials, now + kept_s)
        return credentials

    async def _run_program(self, image: str) -> bytes:
        """Run the program and return the JSON that it prints. Raises OSError, and ValueError if the program fails."""
        process = await asyncio.create_subprocess_exec(
            str(self._program),
            *self._arguments,
            env={**os.environ, **self._environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        asked = {"kind": "CredentialProviderRequest", "apiVersion": self._version, "image": image}
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer, said = await process.communicate(orjson.dumps(asked))
        except TimeoutError as error:
            raise ValueError(f"the program did not end within {TIMEOUT_S:g} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise ValueError(f"exit code {process.returncode}: {said.decode(errors='replace').strip()[:256]}")
        return answer


def load_providers(file: Path, folder: Path, *, monotonic: Callable[[], float]) -> list[Provider]:
    """Return the plugins that a file names; empty when there is no file. Raises ConfigurationError for an invalid
    file.
    """
    if not file.is_file():
        return []
    import yaml

    where = f"configuration of credential providers {file}"
    try:
        config = yaml.safe_load(file.read_text())
        entries = config["providers"]
        return [Plugin(entry, folder, monotonic=monotonic) for entry in entries]
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{where} cannot be used: {type(error).__name__}: {error}") from error


def read_docker_configuration(files: Sequence[Path]) -> Provider:
    """Return a provider that reads, at each pull, the credentials in the first valid docker configuration file."""

    async def provide(_image: str) -> Sequence[Credential]:
        return await asyncio.to_thread(_read_first, files)

    return provide


def _read_first(files: Sequence[Path]) -> Sequence[Credential]:
    for file in files:
        try:
            return read_credentials(orjson.loads(file.read_bytes()))
        except (OSError, ValueError):
            continue
    return ()
