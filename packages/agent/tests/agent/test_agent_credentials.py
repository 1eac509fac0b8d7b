"""Credentials from the node itself: credential provider plugins and a docker configuration."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from pykruise.agent.credential_plugins import Plugin, load_providers, read_docker_configuration
from pykruise.kube.errors import ConfigurationError

pytestmark = pytest.mark.real_time

ANSWER = {
    "kind": "CredentialProviderResponse",
    "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
    "cacheKeyType": "Registry",
    "cacheDuration": "10m",
    "auth": {"*.example.com": {"username": "me", "password": "token"}},
}


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def write_plugin(folder: Path, script: str) -> None:
    program = folder / "provider"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def config(folder: Path, **entry: object) -> Path:
    file = folder / "config.yaml"
    provider = {
        "name": "provider",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": ["*.example.com"],
        "defaultCacheDuration": "1m",
        **entry,
    }
    file.write_text(json.dumps({"kind": "CredentialProviderConfig", "providers": [provider]}))
    return file


async def test_a_plugin_gets_a_request_per_image_and_its_answer_is_cached(tmp_path: Path) -> None:
    # given a plugin that records its requests
    write_plugin(tmp_path, f"cat >> {tmp_path}/asked; echo >> {tmp_path}/asked; echo '{json.dumps(ANSWER)}'")
    time = Time()
    [plugin] = load_providers(config(tmp_path), tmp_path, monotonic=time)
    # when
    credentials = await plugin("eu.example.com/team/app")
    # then
    assert [credential.text for credential in credentials] == ["me:token"]
    assert await plugin("eu.example.com/other") == credentials  # another image of the same registry
    assert await plugin("elsewhere.com/app") == ()
    time.now += 601
    await plugin("eu.example.com/team/app")
    asked = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines() if line]
    assert [item["image"] for item in asked] == ["eu.example.com/team/app"] * 2
    assert asked[0]["kind"] == "CredentialProviderRequest"


@pytest.mark.parametrize("script", ["exit 1", "echo nonsense", "echo '{}'"])
async def test_a_plugin_that_fails_has_no_credentials(script: str, tmp_path: Path) -> None:
    write_plugin(tmp_path, script)
    [plugin] = load_providers(config(tmp_path), tmp_path, monotonic=Time())
    assert await plugin("eu.example.com/app") == ()


async def test_a_plugin_that_is_not_installed_returns_no_credentials(tmp_path: Path) -> None:
    [plugin] = load_providers(config(tmp_path), tmp_path, monotonic=Time())
    assert isinstance(plugin, Plugin)
    assert await plugin("eu.example.com/app") == ()


async def test_a_missing_file_loads_no_plugins_and_an_invalid_one_is_reported(tmp_path: Path) -> None:
    assert load_providers(tmp_path / "none.yaml", tmp_path, monotonic=Time()) == []
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("providers: [{name: x}]")
    with pytest.raises(ConfigurationError, match=r"wrong\.yaml"):
        load_providers(wrong, tmp_path, monotonic=Time())


async def test_each_pull_reads_the_docker_configuration_again(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    provide = read_docker_configuration([tmp_path / "none.json", file])
    assert await provide("r.io/app") == ()
    file.write_text(json.dumps({"auths": {"r.io": {"auth": b64encode(b"me:x").decode()}}}))
    assert [credential.text for credential in await provide("r.io/app")] == ["me:x"]
