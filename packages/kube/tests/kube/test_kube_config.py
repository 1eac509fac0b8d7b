"""Configuration: kubeconfig files and service accounts, and the messages about invalid ones."""

import asyncio
import base64
import http.server
import json
import os
import ssl
import stat
import sys
import tempfile
import textwrap
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from pykruise.kube.config.connection import Connection, Credentials, Material, RenewedCredentials
from pykruise.kube.config.kubeconfig import Overrides, load, load_in_cluster, load_kubeconfig
from pykruise.kube.errors import ConfigurationError
from support.certificates import Authority, key_pem

pytestmark = pytest.mark.real_time  # threads, files and plugins

EXEC_V1 = "client.authentication.k8s.io/v1"
NOTHING: Mapping[str, str] = {"HOME": "/nonexistent", "PATH": os.environ["PATH"]}


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_767_225_600.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def kubeconfig(
    *, user: Mapping[str, Any] | None = None, cluster: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A kubeconfig with one context; `cluster` adds fields to its cluster."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": dict(user or {"token": "t0ken"})}],
    }
    return {**document, **more}


def write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


def loaded(folder: Path, document: Any = None, context: str | None = None, **options: Any) -> Connection:
    options = {"environ": NOTHING, **options}
    return load_kubeconfig(write(folder / "config", document or kubeconfig()), context, **options)


def load_now(*arguments: Any, **options: Any) -> Connection:
    return asyncio.run(load(*arguments, **options))


def token_of(headers: Mapping[str, str]) -> str:
    return headers["Authorization"].removeprefix("Bearer ")


async def token(credentials: Credentials) -> str:
    return token_of(await credentials.read_headers())


# ── files and fields ────────────────────────────────────────────────────────


async def test_a_usual_kubeconfig_becomes_a_connection(tmp_path: Path, authority: Authority) -> None:
    # when
    connection = loaded(
        tmp_path,
        kubeconfig(
            cluster={
                "server": "https://10.0.0.1:6443/k8s/",
                "certificate-authority-data": b64(authority.pem),
                "tls-server-name": "kubernetes",
                "proxy-url": "http://proxy:3128",
            }
        ),
    )
    # then
    assert connection.server == "https://10.0.0.1:6443/k8s"
    assert connection.server_name == "kubernetes"
    assert connection.proxy == "http://proxy:3128"
    assert connection.namespace == "team"
    assert connection.source == f"kubeconfig {tmp_path / 'config'}, context dev"
    assert await connection.credentials.read_headers() == {"Authorization": "Bearer t0ken"}
    assert await connection.credentials.refresh(rejected=await connection.credentials.read_headers()) is False
    assert connection.ssl_context is not None
    assert connection.ssl_context.verify_mode == ssl.CERT_REQUIRED
    [trusted] = connection.ssl_context.get_ca_certs()
    assert dict(part[0] for part in trusted["subject"])["commonName"] == "test authority"


async def test_another_context_can_be_named(tmp_path: Path) -> None:
    # given
    document = kubeconfig()
    document["contexts"].append({"name": "other", "context": {"cluster": "c2"}})
    document["clusters"].append({"name": "c2", "cluster": {"server": "http://localhost:8001"}})
    # when
    connection = loaded(tmp_path, document, "other")
    # then plain http, no user, as `kubectl proxy` serves it
    assert connection.server == "http://localhost:8001"
    assert connection.ssl_context is None
    assert connection.namespace == "default"
    assert await connection.credentials.read_headers() == {}


async def test_files_are_found_relative_to_the_kubeconfig(tmp_path: Path, authority: Authority) -> None:
    # given
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki" / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "pki" / "token").write_text("from-file\n")
    document = kubeconfig(
        cluster={"certificate-authority": "pki/ca.crt"}, user={"tokenFile": "pki/token", "token": "fixed"}
    )
    # when
    connection = loaded(tmp_path, document)
    # then the file precedes a fixed token, because only the file is renewed
    assert await token(connection.credentials) == "from-file"
    assert connection.ssl_context is not None
    assert len(connection.ssl_context.get_ca_certs()) == 1


async def test_a_kubeconfig_in_a_mounted_secret_is_read_again_after_a_rotation(tmp_path: Path) -> None:
    # given a Secret as the kubelet mounts it: files are links into a folder that each update replaces
    clock = ManualClock()
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        write(tmp_path / version / "config", kubeconfig(user={"tokenFile": "token"}))
        (tmp_path / version / "token").write_text(f"token-{version}")
    (tmp_path / "..data").symlink_to("1")
    for name in ("config", "token"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    credentials = load_kubeconfig(tmp_path / "config", environ=NOTHING, clock=clock).credentials
    assert await token(credentials) == "token-1"
    # when
    (tmp_path / "next").symlink_to("2")
    (tmp_path / "next").rename(tmp_path / "..data")
    clock.now += 3600
    # then
    assert await token(credentials) == "token-2"


async def test_credentials_are_not_sent_without_tls(tmp_path: Path) -> None:
    for user in ({"token": "t0ken"}, {"username": "jane", "password": "x"}, {"tokenFile": "missing"}):
        connection = loaded(tmp_path, kubeconfig(user=user, cluster={"server": "http://localhost:8001"}))
        assert await connection.credentials.read_headers() == {}


@pytest.mark.parametrize(
    ("fields", "server"),
    [
        ({}, "http://localhost:8001"),
        ({"insecure-skip-tls-verify": True}, "https://localhost:8001"),
    ],
)
def test_a_server_without_a_scheme_gets_one(tmp_path: Path, fields: dict[str, Any], server: str) -> None:
    connection = loaded(tmp_path, kubeconfig(cluster={"server": "localhost:8001", **fields}))
    assert connection.server == server


def test_flags_clear_the_fields_of_the_kubeconfig_that_they_replace(
    tmp_path: Path, authority: Authority
) -> None:
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    document = kubeconfig(cluster={"tls-server-name": "old", "insecure-skip-tls-verify": True})
    overrides = Overrides(
        cluster={"server": "https://other", "certificate-authority": str(tmp_path / "ca.crt")}
    )
    connection = loaded(tmp_path, document, overrides=overrides)
    assert connection.server_name == ""
    assert connection.ssl_context is not None
    assert connection.ssl_context.verify_mode == ssl.CERT_REQUIRED


def test_a_server_of_the_command_line_needs_no_kubeconfig(tmp_path: Path) -> None:
    overrides = Overrides(cluster={"server": "https://other"}, user={"token": "t0ken"})
    assert loaded(tmp_path, "# nothing\n", overrides=overrides).server == "https://other"


async def test_a_client_certificate_is_loaded_without_leaving_a_file_behind(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    certificate, key = authority.issue("me")
    document = kubeconfig(
        cluster={"certificate-authority-data": b64(authority.pem)},
        user={"client-certificate-data": b64(certificate), "client-key-data": b64(key)},
    )
    # when
    connection = loaded(tmp_path, document)
    # then
    assert await who_connects(connection, authority, tmp_path) == "me"
    assert list(scratch.iterdir()) == []


async def test_the_temporary_key_file_is_deleted_immediately_without_memory_files(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.delattr(os, "memfd_create", raising=False)
    certificate, key = authority.issue("me")
    document = kubeconfig(
        cluster={"certificate-authority-data": b64(authority.pem)},
        user={"client-certificate-data": b64(certificate), "client-key-data": b64(key)},
    )
    # when
    connection = loaded(tmp_path, document)
    # then
    assert list(scratch.iterdir()) == []
    monkeypatch.undo()
    assert await who_connects(connection, authority, tmp_path) == "me"


async def test_a_username_with_password_is_basic_authentication(tmp_path: Path) -> None:
    connection = loaded(tmp_path, kubeconfig(user={"username": "me", "password": "pä:ss"}))
    expected = "Basic " + b64("me:pä:ss".encode())
    assert await connection.credentials.read_headers() == {"Authorization": expected}


async def test_impersonation_is_honoured(tmp_path: Path) -> None:
    # given
    user = {
        "token": "t",
        "as": "jane",
        "as-uid": "u-1",
        "as-groups": ["a", "b"],
        "as-user-extra": {"Acme.com/Team": ["x", "z"]},
    }
    # when
    connection = loaded(tmp_path, kubeconfig(user=user))
    # then
    assert list(connection.headers) == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "u-1"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-acme.com%2Fteam", "x"),
        ("Impersonate-Extra-acme.com%2Fteam", "z"),
    ]


def test_tls_verification_can_be_switched_off(tmp_path: Path) -> None:
    connection = loaded(tmp_path, kubeconfig(cluster={"insecure-skip-tls-verify": True}))
    assert connection.ssl_context is not None
    assert connection.ssl_context.verify_mode == ssl.CERT_NONE
    assert connection.ssl_context.check_hostname is False


# ── which file ───────────────────────────────────────────────────────────────


def with_server(server: str, **more: Any) -> dict[str, Any]:
    return kubeconfig(cluster={"server": server}, **more)


def test_the_first_existing_source_is_used(tmp_path: Path, authority: Authority) -> None:
    # given all sources
    explicit = write(tmp_path / "explicit", with_server("https://explicit"))
    listed = write(tmp_path / "listed", with_server("https://listed"))
    write(tmp_path / ".kube" / "config", with_server("https://home"))
    account = service_account(tmp_path, authority)
    environ = {
        "HOME": str(tmp_path),
        "KUBECONFIG": str(listed),
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
    }

    def server(path: Path | None = None, context: str | None = None) -> str:
        return load_now(path, context, environ=environ, service_account=account).server

    # when, then
    assert server(explicit) == "https://explicit"
    assert server() == "https://listed"
    del environ["KUBECONFIG"]
    assert server() == "https://10.96.0.1:443"
    assert server(context="dev") == "https://home"
    (account / "token").unlink()
    assert server() == "https://home"
    (tmp_path / ".kube" / "config").unlink()
    with pytest.raises(ConfigurationError, match=r"no cluster is configured: .* pykruise up"):
        server()


def test_a_command_line_uses_the_pod_only_without_a_kubeconfig(tmp_path: Path, authority: Authority) -> None:
    # given a pod whose home has a kubeconfig
    home = tmp_path / ".kube" / "config"
    context = {"name": "dev", "context": {"cluster": "c", "user": "u"}}
    write(home, with_server("https://home", contexts=[context]))
    account = service_account(tmp_path, authority)
    environ = {**POD, "HOME": str(tmp_path)}

    def connect(**more: Any) -> Connection:
        return load_now(environ=environ, service_account=account, prefers_files=True, **more)

    # when, then the pod's namespace is the default
    assert (connect().server, connect().namespace) == ("https://home", "kruise-system")
    # when the kubeconfig has no current context, or does not exist
    write(home, with_server("https://home", **{"current-context": ""}))
    assert connect().server == "https://10.96.0.1:443"
    assert connect(context="dev").server == "https://home"
    home.unlink()
    assert (connect().server, connect().namespace) == ("https://10.96.0.1:443", "kruise-system")
    environ["POD_NAMESPACE"] = "shop"
    assert connect().namespace == "shop"


async def test_values_of_the_command_line_replace_those_of_the_pod(
    tmp_path: Path, authority: Authority
) -> None:
    # given
    account = service_account(tmp_path, authority)
    overrides = Overrides(user={"token": "other", "as": "jane"}, cluster={"insecure-skip-tls-verify": True})
    # when
    connection = load_in_cluster(environ=POD, service_account=account, overrides=overrides)
    # then
    assert await token(connection.credentials) == "other"
    assert list(connection.headers) == [("Impersonate-User", "jane")]
    assert connection.ssl_context is not None
    assert connection.ssl_context.verify_mode == ssl.CERT_NONE


async def test_files_of_the_environment_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    # given the context in one file, its cluster in another, and one file that is missing
    first = write(
        tmp_path / "a" / "config",
        {
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"tokenFile": "token"}}],
            "current-context": "x",
        },
    )
    (first.parent / "token").write_text("from-a")
    second = write(tmp_path / "b", kubeconfig(user={"token": "from-b"}))
    environ = {
        **NOTHING,
        "KUBECONFIG": os.pathsep.join([str(first), str(tmp_path / "missing"), "", str(second)]),
    }
    # when
    connection = load_kubeconfig(None, environ=environ)
    # then
    assert connection.source.endswith("context x")
    assert connection.server == "https://10.0.0.1:6443"
    assert await token(connection.credentials) == "from-a"


def test_a_path_may_contain_what_separates_paths_in_the_environment(tmp_path: Path) -> None:
    path = write(tmp_path / f"a{os.pathsep}b", kubeconfig())
    assert load_kubeconfig(path, environ=NOTHING).server == "https://10.0.0.1:6443"


# ── proxies of the environment ───────────────────────────────────────────────


@pytest.mark.parametrize(
    ("server", "no_proxy", "expected"),
    [
        ("https://api.example.com", "", "http://proxy:3128"),
        ("https://api.example.com", "example.com", ""),
        ("https://example.com", "example.com", ""),
        ("https://example.com", ".example.com", "http://proxy:3128"),
        ("https://api.example.com", "other.org, .example.com", ""),
        ("https://notexample.com", "example.com", "http://proxy:3128"),
        ("https://api.example.com", "*", ""),
        ("https://api.example.com", "other.org,*", ""),
        ("https://api.example.com", "*.example.com", ""),
        ("https://example.com", "*.example.com", "http://proxy:3128"),
        ("https://api.example.com", "*example.com", "http://proxy:3128"),
        ("https://api.example.com", "Example.COM", ""),
        ("https://api.example.com:6443", "example.com:6443", ""),
        ("https://api.example.com:6443", ".example.com:6443", ""),
        ("https://api.example.com:6443", "*.example.com:6443", ""),
        ("https://example.com:6443", "*.example.com:6443", "http://proxy:3128"),
        ("https://api.example.com:6443", "example.com:443", "http://proxy:3128"),
        ("https://api.example.com", "example.com:443", ""),
        ("https://api.example.com:6443", "example.com:", ""),
        ("https://api.example.com:6443", ":6443", "http://proxy:3128"),
        ("https://api.example.com", " , ,", "http://proxy:3128"),
        ("https://10.1.2.3:6443", "10.0.0.0/8", ""),
        ("https://10.1.2.3:6443", "10.1.2.3", ""),
        ("https://10.1.2.3:6443", "10.2.0.0/16,example.com", "http://proxy:3128"),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", ""),
        ("https://10.1.2.3:6443", "10.1.2.3:443", "http://proxy:3128"),
        ("https://10.1.2.3:6443", "10.0.0.0/8:6443", "http://proxy:3128"),
        ("https://10.1.2.3:6443", "10.0.0.0/255.0.0.0", "http://proxy:3128"),
        ("https://10.1.2.3:6443", "3,.2.3", "http://proxy:3128"),
        ("https://api.10.1.2.3", "10.1.2.3", "http://proxy:3128"),
        ("https://[fd00::1]:6443", "fd00::/8", ""),
        ("https://[fd00::1]:6443", "fd00::1", ""),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", ""),
        ("https://[fd00::1]:6443", "[fd00::1]:443", "http://proxy:3128"),
        ("https://[fd00::1]:6443", "10.0.0.0/8", "http://proxy:3128"),
        ("https://127.0.0.1:6443", "", ""),
        ("https://localhost:6443", "", ""),
        ("http://api.example.com", "", ""),
    ],
)
def test_proxies_of_the_environment_apply_as_in_go_programs(
    tmp_path: Path, server: str, no_proxy: str, expected: str
) -> None:
    environ = {**NOTHING, "HTTPS_PROXY": "proxy:3128", "NO_PROXY": no_proxy}
    assert loaded(tmp_path, with_server(server), environ=environ).proxy == expected


# ── errors ──────────────────────────────────────────────────────────────────


def complaint(load_it: Callable[[], Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_it()
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            "a: [1, 2\nb: 3\n",
            "{path}: malformed YAML at line 2, column 2: did not find expected ',' or ']'; correct it",
        ),
        (
            "\tx",
            "{path}: malformed YAML at line 1, column 1:"
            " found character that cannot start any token; correct it",
        ),
        ("[1, 2]", "{path}: is not a kubeconfig; expected a document with clusters, contexts and users"),
        ("just text", "{path}: is not a kubeconfig; expected a document with clusters, contexts and users"),
        (
            "# nothing\n",
            "{path}: the file has no contexts; choose another file with --kubeconfig or $KUBECONFIG",
        ),
        ({"kind": "Deployment"}, "{path}: contains a Deployment, not a kubeconfig (kind Config)"),
        (
            {"contexts": "x"},
            "{path}: every entry of contexts needs a name",
        ),
        (kubeconfig(users=[{"user": {}}]), "{path}: every entry of users needs a name"),
        (kubeconfig(users=["u"]), "{path}: every entry of users needs a name"),
        (
            kubeconfig(**{"current-context": ""}),
            "{path}: no current-context; choose one with --context (dev), or run: kubectl config use-context NAME",
        ),
        (
            kubeconfig(**{"current-context": "", "contexts": []}),
            "{path}: the file has no contexts; choose another file with --kubeconfig or $KUBECONFIG",
        ),
        (
            kubeconfig(**{"current-context": "gone"}),
            "{path}: context 'gone' (the current-context) is not in the file; available: dev",
        ),
        (kubeconfig(contexts=[{"name": "dev"}]), "{path}: context 'dev' is empty; add its fields"),
        (
            kubeconfig(contexts=[{"name": "dev", "context": {"user": "u"}}]),
            "{path}: context 'dev' has no cluster; add its field cluster",
        ),
        (
            kubeconfig(clusters=[]),
            "{path}: cluster 'c' (named by context 'dev') is not in the file; available: none",
        ),
        (
            kubeconfig(users=[{"name": "x", "user": {}}, {"name": "z", "user": {}}]),
            "{path}: user 'u' (named by context 'dev') is not in the file; available: x, z",
        ),
        (
            kubeconfig(cluster={"server": "localhost:none"}),
            "{path}: cluster 'c': server 'localhost:none' is not a URL such as https://127.0.0.1:6443",
        ),
        (
            kubeconfig(cluster={"server": "https://h:99999"}),
            "{path}: cluster 'c': server 'https://h:99999' is not a URL such as https://127.0.0.1:6443",
        ),
        (
            kubeconfig(cluster={"server": None}),
            "{path}: cluster 'c': server '' is not a URL such as https://127.0.0.1:6443",
        ),
        (
            kubeconfig(cluster={"certificate-authority-data": "%%%"}),
            "{path}: cluster 'c': certificate-authority-data is not base64 of a PEM certificate or key",
        ),
        (
            kubeconfig(cluster={"certificate-authority": "missing.crt"}),
            "{path}: cluster 'c': certificate-authority {folder}/missing.crt: No such file or directory",
        ),
        (
            kubeconfig(cluster={"proxy-url": "socks5://p:1"}),
            "{path}: cluster 'c': proxy-url 'socks5://p:1' is not supported;"
            " use an http:// or https:// proxy",
        ),
        (
            kubeconfig(user={"tokenFile": "missing"}),
            "{path}: user 'u', tokenFile: {folder}/missing: No such file or directory",
        ),
        (
            kubeconfig(user={"token": "two\nlines"}),
            "{path}: user 'u', token: is not a token; write a token into it",
        ),
        (
            kubeconfig(user={"client-certificate-data": b64(b"x")}),
            "{path}: user 'u': client-certificate is set, but client-key is not; add client-key-data",
        ),
        (
            kubeconfig(user={"exec": {"command": "x"}}),
            "{path}: user 'u', exec: command and apiVersion are required",
        ),
        (
            kubeconfig(user={"exec": {"apiVersion": EXEC_V1, "command": "no-such-plugin"}}),
            "{path}: user 'u', exec: no-such-plugin is not an executable in PATH;"
            " install it, or correct the command",
        ),
        (
            kubeconfig(
                user={"exec": {"apiVersion": EXEC_V1, "command": "./no", "installHint": "get it\nfrom x"}}
            ),
            "{path}: user 'u', exec: ./no is not an executable in PATH; get it from x",
        ),
        (
            kubeconfig(user={"auth-provider": {"name": "gcp"}}),
            "{path}: user 'u', auth-provider: 'gcp' is supported neither here nor by kubectl;"
            " use the provider's exec plugin",
        ),
        (
            kubeconfig(user={"exec": {"apiVersion": "v1", "command": "sh"}}),
            "{path}: user 'u', exec: apiVersion v1 is not supported; use one of:"
            " client.authentication.k8s.io/v1, client.authentication.k8s.io/v1beta1,"
            " client.authentication.k8s.io/v1alpha1",
        ),
        (
            kubeconfig(user={"exec": {"apiVersion": EXEC_V1, "command": "sh", "args": ["get", 1]}}),
            "{path}: user 'u', exec: Expected `str`, got `int` - at `$.args[1]`",
        ),
    ],
)
def test_each_error_is_one_line_with_its_place_and_remedy(
    tmp_path: Path, document: Any, expected: str
) -> None:
    path = tmp_path / "config"
    text = complaint(lambda: loaded(tmp_path, document))
    assert text == "kubeconfig " + expected.format(path=path, folder=tmp_path)


def test_a_missing_context_is_reported_with_the_existing_ones(tmp_path: Path) -> None:
    text = complaint(lambda: loaded(tmp_path, None, "prod"))
    assert text.endswith("context 'prod' is not in the file; available: dev")
    assert complaint(lambda: loaded(tmp_path, None, "dve")).endswith("is not in the file; did you mean dev?")


def test_certificates_and_keys_that_cannot_be_used_are_an_error_with_their_place(
    tmp_path: Path, authority: Authority
) -> None:
    certificate, key = authority.issue("me")
    _, other_key = authority.issue("other")
    encrypted = key_pem(ec.generate_private_key(ec.SECP256R1()), password=b"secret")

    def user(chain: bytes, private: bytes) -> dict[str, Any]:
        return kubeconfig(user={"client-certificate-data": b64(chain), "client-key-data": b64(private)})

    for wrong in (
        user(b"x", key),
        user(certificate, b"x"),
        user(certificate, other_key),
        user(certificate, encrypted),
    ):
        text = complaint(lambda wrong=wrong: loaded(tmp_path, wrong))
        assert (
            "user 'u': client-certificate and client-key are not a PEM certificate and its unencrypted key"
            in text
        )
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    for ca in (b"x", b"\xff\xfe", broken):
        text = complaint(
            lambda ca=ca: loaded(tmp_path, kubeconfig(cluster={"certificate-authority-data": b64(ca)}))
        )
        assert "cluster 'c': certificate-authority is not a PEM certificate" in text
    both = {"certificate-authority-data": b64(authority.pem), "insecure-skip-tls-verify": True}
    assert "exclude each other" in complaint(lambda: loaded(tmp_path, kubeconfig(cluster=both)))


def test_files_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert complaint(lambda: load_now(missing)) == (
        f"kubeconfig {missing}: the file does not exist (the given path); give the path of an existing file"
    )
    environ = {**NOTHING, "KUBECONFIG": f"{missing}{os.pathsep}{missing}2"}
    assert f"{missing}, {missing}2: the file does not exist ($KUBECONFIG)" in complaint(
        lambda: load_now(environ=environ)
    )
    home = complaint(lambda: load_now(None, "dev", environ=NOTHING))
    assert "/nonexistent/.kube/config: the file does not exist ($KUBECONFIG is not set" in home
    assert "cannot be read: Is a directory" in complaint(lambda: load_now(tmp_path))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "is not a kubeconfig" in complaint(lambda: load_now(binary))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "config", kubeconfig())
    path.chmod(0)
    assert "cannot be read: Permission denied; check its permissions" in complaint(lambda: load_now(path))


# ── in a pod ─────────────────────────────────────────────────────────────────

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def service_account(folder: Path, authority: Authority) -> Path:
    account = folder / "serviceaccount"
    account.mkdir()
    (account / "token").write_text("first\n")
    (account / "ca.crt").write_bytes(authority.pem)
    (account / "namespace").write_text("kruise-system")
    return account


async def test_in_a_pod_the_service_account_is_used_and_its_token_read_again_every_minute(
    tmp_path: Path, authority: Authority
) -> None:
    # given
    account, clock = service_account(tmp_path, authority), ManualClock()
    connection = load_in_cluster(environ=POD, service_account=account, clock=clock)
    assert (connection.server, connection.namespace) == ("https://10.96.0.1:443", "kruise-system")
    assert connection.ssl_context is not None
    assert await token(connection.credentials) == "first"
    # when the kubelet rotates it
    (account / "token").write_text("second\n")
    # then
    clock.now += 59
    assert await token(connection.credentials) == "first"
    clock.now += 2
    assert await token(connection.credentials) == "second"


async def test_a_401_reloads_the_token_immediately(tmp_path: Path, authority: Authority) -> None:
    # given
    account, clock = service_account(tmp_path, authority), ManualClock()
    credentials = load_in_cluster(environ=POD, service_account=account, clock=clock).credentials
    rejected = await credentials.read_headers()
    (account / "token").write_text("second")
    # when
    assert await credentials.refresh(rejected=rejected) is True
    # then
    assert await token(credentials) == "second"


async def test_a_token_file_that_disappears_leaves_the_old_token_in_use(
    tmp_path: Path, authority: Authority
) -> None:
    # given
    account, clock = service_account(tmp_path, authority), ManualClock()
    credentials = load_in_cluster(environ=POD, service_account=account, clock=clock).credentials
    (account / "token").unlink()
    # when
    clock.now += 61
    # then
    assert await token(credentials) == "first"
    (account / "token").write_text("back")
    clock.now += 11
    assert await token(credentials) == "back"


def test_an_ipv6_service_address_is_bracketed(tmp_path: Path, authority: Authority) -> None:
    environ = {**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}
    account = service_account(tmp_path, authority)
    assert load_in_cluster(environ=environ, service_account=account).server == "https://[fd00::1]:443"


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_an_incomplete_service_account_is_an_error(
    tmp_path: Path, authority: Authority, missing: str
) -> None:
    account = service_account(tmp_path, authority)
    (account / missing).unlink()
    text = complaint(lambda: load_in_cluster(environ=POD, service_account=account))
    assert text.startswith(f"service account {account}: ")
    assert "works only in a pod" in text


def test_a_process_outside_a_pod_has_no_service_account(tmp_path: Path) -> None:
    assert "works only in a pod" in complaint(lambda: load_in_cluster(environ={}, service_account=tmp_path))


def test_an_empty_or_odd_token_is_an_error(tmp_path: Path, authority: Authority) -> None:
    account = service_account(tmp_path, authority)
    for content in ("", " \n", "tök"):
        (account / "token").write_text(content)
        text = complaint(lambda: load_in_cluster(environ=POD, service_account=account))
        assert str(account) in text


# ── files that rotate ────────────────────────────────────────────────────────


async def who_connects(connection: Connection, authority: Authority, folder: Path) -> str:
    """The name in the client certificate that a server sees."""
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        subject = writer.get_extra_info("peercert")["subject"]
        seen.set_result(dict(part[0] for part in subject)["commonName"])
        writer.close()

    context = authority.server_context(folder, asks_clients=True)
    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    tls = connection.credentials.tls or connection.ssl_context
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    await reader.read()
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
    return await seen


async def test_client_certificate_files_are_read_again_and_make_a_new_context_only_when_they_changed(
    tmp_path: Path, authority: Authority
) -> None:
    # given
    def put(name: str) -> None:
        certificate, key = authority.issue(name)
        (tmp_path / "me.crt").write_bytes(certificate)
        (tmp_path / "me.key").write_bytes(key)

    put("first")
    clock = ManualClock()
    document = kubeconfig(
        cluster={"certificate-authority-data": b64(authority.pem)},
        user={"client-certificate": "me.crt", "client-key": "me.key"},
    )
    connection = loaded(tmp_path, document, clock=clock)
    assert await who_connects(connection, authority, tmp_path) == "first"
    # when nothing has changed
    before = connection.credentials.tls
    clock.now += 61
    await connection.credentials.read_headers()
    # then
    assert connection.credentials.tls is before
    # when
    put("second")
    clock.now += 61
    await connection.credentials.read_headers()
    # then
    assert await who_connects(connection, authority, tmp_path) == "second"
    # when the new key is written, and the new certificate is not yet
    (tmp_path / "me.key").write_bytes(authority.issue("third")[1])
    clock.now += 61
    await connection.credentials.read_headers()
    # then
    assert await who_connects(connection, authority, tmp_path) == "second"


# ── exec plugins ─────────────────────────────────────────────────────────────


class Plugin:
    """A credential plugin: a small Python program that prints what `answer` holds and counts its runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "plugin.py").write_text(
            textwrap.dedent(
                """\
                import os, pathlib, sys
                here = pathlib.Path(__file__).parent
                with open(here / "runs", "a") as runs:
                    runs.write(".")
                (here / "info").write_text(os.environ["KUBERNETES_EXEC_INFO"])
                (here / "seen").write_text(" ".join(sys.argv[1:]) + os.environ.get("EXTRA", ""))
                text = (here / "answer").read_text()
                if text.startswith("fail"):
                    sys.exit(text)
                print(text)
                """
            )
        )
        command = folder / "plugin"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -SE "$(dirname "$0")/plugin.py" "$@"\n')
        command.chmod(stat.S_IRWXU)

    def answers(self, status: Any) -> None:
        document = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }
        (self._folder / "answer").write_text(status if isinstance(status, str) else json.dumps(document))

    @property
    def runs(self) -> int:
        file = self._folder / "runs"
        return len(file.read_text()) if file.exists() else 0

    @property
    def info(self) -> Any:
        return json.loads((self._folder / "info").read_text())

    @property
    def seen(self) -> str:
        return (self._folder / "seen").read_text()


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def with_plugin(cluster: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", **more}
    return kubeconfig(user={"exec": spec}, cluster=cluster)


async def test_a_plugin_runs_when_first_needed_and_again_before_its_token_expires(
    tmp_path: Path, plugin: Plugin
) -> None:
    # given a token that is good for 1,000 s
    clock = ManualClock()
    plugin.answers({"token": "first", "expirationTimestamp": "2026-01-01T00:16:40Z"})
    document = with_plugin(
        args=["get", "token"], env=[{"name": "EXTRA", "value": "!"}], provideClusterInfo=True
    )
    # when, then
    credentials = loaded(tmp_path, document, clock=clock).credentials
    assert plugin.runs == 0
    assert await token(credentials) == "first"
    assert plugin.seen == "get token!"
    assert plugin.info["spec"]["cluster"]["server"] == "https://10.0.0.1:6443"
    plugin.answers({"token": "second"})
    clock.now += 890
    assert await token(credentials) == "first"
    clock.now += 20
    assert await token(credentials) == "second"
    clock.now += 1e6  # no expiry: until a 401
    assert await token(credentials) == "second"
    assert plugin.runs == 2


async def test_after_a_401_the_plugin_runs_once_for_all_requests_that_got_one(
    tmp_path: Path, plugin: Plugin
) -> None:
    # given
    clock = ManualClock()
    plugin.answers({"token": "first"})
    credentials = loaded(tmp_path, with_plugin(), clock=clock).credentials
    rejected = await credentials.read_headers()
    plugin.answers({"token": "second"})
    # when
    refreshed = await asyncio.gather(*(credentials.refresh(rejected=rejected) for _ in range(20)))
    # then
    assert refreshed == [True] * 20
    assert plugin.runs == 2
    assert await token(credentials) == "second"


async def test_a_token_that_is_refused_repeatedly_does_not_run_the_plugin_each_time(
    tmp_path: Path, plugin: Plugin
) -> None:
    # given a plugin that always gives the same token
    clock = ManualClock()
    plugin.answers({"token": "stale"})
    credentials = loaded(tmp_path, with_plugin(), clock=clock).credentials
    for _ in range(10):
        rejected = await credentials.read_headers()
        # when, then
        assert await credentials.refresh(rejected=rejected) is False
    assert plugin.runs == 2
    clock.now += 6
    await credentials.refresh(rejected=await credentials.read_headers())
    assert plugin.runs == 3


async def test_a_plugin_may_give_a_client_certificate(
    tmp_path: Path, plugin: Plugin, authority: Authority
) -> None:
    # given
    def give(name: str) -> None:
        certificate, key = authority.issue(name)
        plugin.answers({"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()})

    clock = ManualClock()
    give("first")
    ca = {"certificate-authority-data": b64(authority.pem)}
    connection = loaded(tmp_path, with_plugin(cluster=ca), clock=clock)
    rejected = await connection.credentials.read_headers()
    assert rejected == {}
    assert await who_connects(connection, authority, tmp_path) == "first"
    # when
    give("second")
    # then
    assert await connection.credentials.refresh(rejected=rejected) is True
    assert await who_connects(connection, authority, tmp_path) == "second"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("fail: log in first", "./plugin failed: exit code 1: fail: log in first"),
        ("not json", "./plugin printed no JSON"),
        ('{"apiVersion": "v0", "kind": "E", "status": {}}', "./plugin printed no ExecCredential"),
        (
            '{"kind": "ExecCredential"}',
            f"printed an ExecCredential of apiVersion None, but the kubeconfig requires {EXEC_V1}",
        ),
        (f'{{"apiVersion": "{EXEC_V1}", "kind": "ExecCredential"}}', "an ExecCredential without a status"),
        ({}, "the plugin returned neither a token nor clientCertificateData with clientKeyData"),
        ({"clientCertificateData": "x"}, "the plugin returned neither"),
        (
            {"clientCertificateData": "x", "clientKeyData": "y"},
            "user 'u': client-certificate and client-key are not",
        ),
        (
            {"token": "t", "expirationTimestamp": "soon"},
            "expirationTimestamp 'soon' is not a time in RFC 3339 format",
        ),
        ({"token": "a\nb"}, "is not a token"),
        ("[]", "./plugin printed no ExecCredential"),
    ],
)
async def test_a_plugin_that_gives_nothing_usable_is_an_error_in_one_line(
    tmp_path: Path, plugin: Plugin, status: Any, expected: str
) -> None:
    # given
    plugin.answers(status)
    credentials = loaded(tmp_path, with_plugin()).credentials
    # when
    with pytest.raises(ConfigurationError) as caught:
        await credentials.read_headers()
    # then
    assert expected in str(caught.value)
    assert str(caught.value).startswith(f"kubeconfig {tmp_path / 'config'}: user 'u'")
    assert "\n" not in str(caught.value)


async def test_messages_of_a_plugin_are_shown_to_a_person(
    tmp_path: Path, plugin: Plugin, capfd: pytest.CaptureFixture[str]
) -> None:
    # given a login that prints what the person must do
    plugin.answers("fail: open https://login.example.com and enter ABCD")
    write(tmp_path / "config", with_plugin())
    for is_attended in (True, False):
        connection = load_kubeconfig(tmp_path / "config", environ=NOTHING, is_attended=is_attended)
        # when
        with pytest.raises(ConfigurationError) as caught:
            await connection.credentials.read_headers()
        # then
        assert ("enter ABCD" in capfd.readouterr().err) is is_attended
        assert ("enter ABCD" in str(caught.value)) is not is_attended


async def test_a_plugin_that_needs_a_terminal_is_an_error_without_one(
    tmp_path: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    monkeypatch.setattr("sys.stdin", None)
    credentials = loaded(tmp_path, with_plugin(interactiveMode="Always")).credentials
    # when, then
    with pytest.raises(ConfigurationError, match=r"\./plugin needs a terminal"):
        await credentials.read_headers()
    assert plugin.runs == 0


async def test_a_plugin_gets_the_same_cluster_information_as_from_client_go(
    tmp_path: Path, plugin: Plugin, authority: Authority
) -> None:
    # given
    plugin.answers({"token": "t"})
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}
    cluster = {"certificate-authority": "ca.crt", "tls-server-name": "api", "extensions": [extension]}
    # when
    await loaded(tmp_path, with_plugin(cluster, provideClusterInfo=True)).credentials.read_headers()
    # then
    assert plugin.info["spec"]["cluster"] == {
        "server": "https://10.0.0.1:6443",
        "tls-server-name": "api",
        "certificate-authority-data": b64(authority.pem),
        "config": {"audience": "me"},
    }


async def test_a_plugin_that_fails_later_leaves_the_old_token_in_use(
    tmp_path: Path, plugin: Plugin, caplog: pytest.LogCaptureFixture
) -> None:
    # given
    clock = ManualClock()
    plugin.answers({"token": "first", "expirationTimestamp": "2026-01-01T00:16:40Z"})
    credentials = loaded(tmp_path, with_plugin(), clock=clock).credentials
    rejected = await credentials.read_headers()
    plugin.answers("fail: log in again")
    # when
    clock.now += 950
    # then
    assert await token(credentials) == "first"
    assert await credentials.refresh(rejected=rejected) is False
    assert "log in again" in caplog.text
    plugin.answers({"token": "second"})
    clock.now += 11
    assert await token(credentials) == "second"


# ── reading in general ───────────────────────────────────────────────────────


async def test_simultaneous_requests_wait_for_one_reading() -> None:
    # given
    reads = []

    def read() -> Material:
        reads.append(1)
        return Material(headers={"Authorization": f"Bearer {len(reads)}"})

    credentials = RenewedCredentials(read, clock=ManualClock())
    # when
    all_headers = await asyncio.gather(*(credentials.read_headers() for _ in range(50)))
    # then
    assert {token_of(headers) for headers in all_headers} == {"1"}
    assert len(reads) == 1


async def test_a_reading_that_hangs_is_given_up() -> None:
    # given
    release = threading.Event()

    def read() -> Material:
        release.wait(10)
        return Material()

    credentials = RenewedCredentials(read, clock=ManualClock(), timeout_s=0.05)
    # when, then
    with pytest.raises(ConfigurationError, match="were not loaded within"):
        await credentials.read_headers()
    release.set()


async def test_a_token_that_is_expired_already_does_not_read_for_every_request() -> None:
    # given
    reads = []
    clock = ManualClock()

    def read() -> Material:
        reads.append(1)
        return Material(headers={"Authorization": "Bearer t"}, expires=clock() - 100)

    credentials = RenewedCredentials(read, clock=clock)
    # when
    for _ in range(10):
        await credentials.read_headers()
    # then
    assert len(reads) == 1


# ── OIDC ─────────────────────────────────────────────────────────────────────


def jwt(expires: float) -> str:
    def part(document: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'exp': int(expires), 'pad': 'x'})}.sig"


class Issuer(http.server.BaseHTTPRequestHandler):
    """An issuer that answers discovery, and answers each refresh token with the token that the test has set."""

    gives: ClassVar[dict[str, Any]] = {}
    """Refresh token → the answer."""
    asked: ClassVar[list[dict[str, list[str]]]] = []

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""

    def do_GET(self) -> None:
        port = self.server.server_address[1]
        self._answer(200, {"token_endpoint": f"https://127.0.0.1:{port}/token"})

    def do_POST(self) -> None:
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.asked.append(form)
        given = self.gives.get(form["refresh_token"][0])
        self._answer(200 if given else 400, given or {"error": "invalid_grant"})

    def _answer(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def issuer(tmp_path: Path, authority: Authority) -> Iterator[str]:
    """The URL of an issuer of OpenID Connect."""
    Issuer.gives, Issuer.asked = {}, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
    server.socket = authority.server_context(tmp_path).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def with_oidc(authority: Authority, **config: str) -> dict[str, Any]:
    config = {"idp-certificate-authority-data": b64(authority.pem), **config}
    return kubeconfig(user={"auth-provider": {"name": "oidc", "config": config}})


async def test_an_oidc_token_is_renewed_with_its_refresh_token_before_it_ends(
    tmp_path: Path, authority: Authority, issuer: str
) -> None:
    # given a token that has ended, and an issuer that gives two more
    clock = ManualClock()
    second, third = jwt(clock.now + 1000), jwt(clock.now + 3000)
    Issuer.gives = {
        "r1": {"id_token": second, "refresh_token": "r2"},
        "r2": {"id_token": third},
    }
    config = {
        "idp-issuer-url": issuer,
        "client-id": "me",
        "client-secret": "key",
        "refresh-token": "r1",
        "id-token": jwt(clock.now - 1),
    }
    credentials = loaded(tmp_path, with_oidc(authority, **config), clock=clock).credentials
    # when, then
    assert await token(credentials) == second
    clock.now += 500
    assert await token(credentials) == second
    clock.now += 480
    assert await token(credentials) == third
    assert Issuer.asked[0] == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["r1"],
        "client_id": ["me"],
        "client_secret": ["key"],
    }
    assert len(Issuer.asked) == 2


async def test_a_renewed_oidc_token_is_stored_for_other_programs(
    tmp_path: Path, authority: Authority, issuer: str
) -> None:
    # given an issuer that accepts each refresh token once, and a kubeconfig behind a symbolic link
    clock = ManualClock()
    Issuer.gives = {"r1": {"id_token": jwt(clock.now + 1000), "refresh_token": "r2"}}
    config = {
        "idp-issuer-url": issuer,
        "client-id": "me",
        "refresh-token": "r1",
        "id-token": jwt(clock.now - 1),
    }
    document = with_oidc(authority, **config)
    document["users"].append({"name": "other", "user": {"token": "t"}})
    stored = write(tmp_path / "stored", document)
    stored.chmod(0o600)
    link = tmp_path / "config"
    link.symlink_to("stored")

    def connect() -> Credentials:
        return load_kubeconfig(link, environ=NOTHING, clock=clock).credentials

    # when
    first = await token(connect())
    # then a second program needs no further renewal
    Issuer.gives = {}
    assert await token(connect()) == first
    kept = yaml.safe_load(stored.read_text())
    [user, other] = kept["users"]
    assert user["user"]["auth-provider"]["config"]["refresh-token"] == "r2"
    assert (other, kept["clusters"]) == (document["users"][1], document["clusters"])
    assert (stat.S_IMODE(stored.stat().st_mode), link.is_symlink()) == (0o600, True)
    assert sorted(os.listdir(tmp_path)) == ["config", "server.pem", "stored"]


async def test_an_oidc_token_is_used_even_if_the_kubeconfig_is_locked(
    tmp_path: Path, authority: Authority, issuer: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    Issuer.gives = {"r1": {"id_token": jwt(clock.now + 1000), "refresh_token": "r2"}}
    config = {"idp-issuer-url": issuer, "client-id": "me", "refresh-token": "r1"}
    (tmp_path / "config.lock").touch()
    credentials = loaded(tmp_path, with_oidc(authority, **config), clock=clock).credentials
    assert await token(credentials) == Issuer.gives["r1"]["id_token"]
    assert "the new tokens cannot be stored" in caplog.text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"refresh-token": "unknown"}, 'responded with status code 400: {"error": "invalid_grant"}'),
        ({"refresh-token": ""}, "refresh-token to renew it; log in again"),
        ({"idp-issuer-url": "http://127.0.0.1"}, "is not an https:// URL"),
        ({"refresh-token": "empty"}, "has no id_token; log in again"),
        ({"idp-certificate-authority-data": ""}, "certificate verify failed"),
    ],
)
async def test_an_oidc_token_that_cannot_be_renewed_is_an_error_in_one_line(
    tmp_path: Path, authority: Authority, issuer: str, change: dict[str, str], expected: str
) -> None:
    # given
    clock = ManualClock()
    Issuer.gives = {"empty": {"access_token": "x"}, "r": {"id_token": jwt(clock.now + 1000)}}
    config = {"idp-issuer-url": issuer, "client-id": "me", "refresh-token": "r", "id-token": jwt(clock.now)}
    credentials = loaded(tmp_path, with_oidc(authority, **{**config, **change}), clock=clock).credentials
    # when
    with pytest.raises(ConfigurationError) as caught:
        await credentials.read_headers()
    # then
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_an_oidc_token_that_is_valid_is_used(tmp_path: Path, authority: Authority) -> None:
    # given
    token_text = jwt(time.time() + 3600)
    config = {"id-token": token_text, "idp-certificate-authority-data": b64(authority.pem)}
    document = kubeconfig(user={"auth-provider": {"name": "oidc", "config": config}})
    # when, then
    assert await token(loaded(tmp_path, document).credentials) == token_text


async def test_an_opaque_oidc_token_is_an_error(tmp_path: Path, authority: Authority) -> None:
    config = {"id-token": "opaque", "idp-certificate-authority-data": b64(authority.pem)}
    credentials = loaded(
        tmp_path, kubeconfig(user={"auth-provider": {"name": "oidc", "config": config}})
    ).credentials
    with pytest.raises(ConfigurationError, match="id-token is not a JWT; log in again"):
        await credentials.read_headers()
