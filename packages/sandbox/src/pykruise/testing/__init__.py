"""A pytest plugin for authors of operators: a separate Kubernetes cluster for each test.

    def test_my_operator(sandbox):              # in process, in virtual time
    def test_my_client(sandbox_kubeconfig):     # over HTTPS, in real time, for any client of a cluster

    @pytest.mark.sandbox(nodes=5, manifests=["crd.yaml"])    options of the cluster

pytest loads it through its entry point (`pip install pykruise[testing]`), or with
`-p pykruise.testing`. Until a test requests a cluster, only pytest is imported. See docs/testing.md.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import pytest
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "the fixtures of pykruise.testing need pytest: pip install 'pykruise-sandbox[testing]'",
        name=error.name,
    ) from error

if TYPE_CHECKING:
    from pykruise.testing.http import HttpSandbox
    from pykruise.testing.sandbox import Sandbox

__all__ = ["options_of", "sandbox", "sandbox_kubeconfig", "sandbox_server"]

_MARKER = (
    "sandbox(nodes=3, seed=0, manifests=(), failures=(), rbac=False, ...): options of the test's cluster"
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def sandbox(request: pytest.FixtureRequest) -> "Iterator[Sandbox]":
    """A cluster in this process with virtual time: `pykruise.testing.sandbox.Sandbox`."""
    from pykruise.testing.sandbox import Sandbox

    with Sandbox(**options_of(request)) as made:
        yield made


@pytest.fixture
def sandbox_server(request: pytest.FixtureRequest, tmp_path: Path) -> "Iterator[HttpSandbox]":
    """A cluster that listens on 127.0.0.1 with TLS and a token: `pykruise.testing.http.HttpSandbox`."""
    from pykruise.testing.http import HttpSandbox

    with HttpSandbox(tmp_path / "sandbox.kubeconfig", **options_of(request)) as made:
        yield made


@pytest.fixture
def sandbox_kubeconfig(sandbox_server: "HttpSandbox") -> str:
    """The path of a kubeconfig for a cluster that listens on 127.0.0.1. File and cluster are removed after the test."""
    return sandbox_server.kubeconfig


def options_of(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of all markers of the test, where the nearest marker has precedence. Paths are relative to the test's
    file.
    """
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("sandbox"))):
        if marker.args:
            raise pytest.UsageError("@pytest.mark.sandbox takes keywords only, such as nodes=5")
        options |= marker.kwargs
    if "manifests" in options:
        manifests = options["manifests"]
        here = request.path.parent
        if isinstance(manifests, (str, Path)):
            manifests = [manifests]
        options["manifests"] = [
            here / manifest if isinstance(manifest, (str, Path)) else manifest for manifest in manifests
        ]
    return options
