"""Options and fixtures of all tests."""

import asyncio
import functools
import gc
import itertools
import os
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import settings

from pykruise.admission import certificate_work
from pykruise.sandbox.virtual_time import VirtualLoop

# Number of examples of each property. They are the same in every run, so more examples would find new faults only once.
# A property with expensive examples uses a part of this number (support/examples.py).
settings.register_profile("default", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("exhaustive", settings.get_profile("default"), max_examples=250)
settings.load_profile("default")

KEYS = 30
"""Number of RSA keys that all tests of a worker share; a test with several replicas needs about 24."""

GC_THRESHOLDS = (200_000, 20, 50)
"""Thresholds of the garbage collector: they are high, because most objects of a cluster live as long as the cluster."""
GARBAGE = 10_000
"""If a test leaves more new objects than this number, its garbage is collected before the next test begins. So clusters
use the same memory again, which is already in the processor's caches."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cluster",
        choices=("sandbox", "real"),
        default="sandbox",
        help="where scenarios run: in the sandbox (virtual time), or on the real control plane of testbed/",
    )
    parser.addoption(
        "--real-nodes",
        action="store_true",
        help="with --cluster=real: its nodes are real too, and only scenarios marked `node` run",
    )
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="scenarios with two parameters run with all combinations instead of every eighth one; "
        "properties have ten times as many examples",
    )
    parser.addoption(
        "--brief",
        action="store_true",
        help="with --cluster=real: an eighth of the scenarios of each file, with an eighth of their parameter sets",
    )
    parser.addoption(
        "--stored",
        choices=("v1alpha1", "v1beta1"),
        default="v1beta1",
        help="scenarios in the sandbox: the version in which kinds with two versions are stored; with v1alpha1, "
        "only this version is served",
    )
    parser.addoption(
        "--build-others",
        action="store_true",
        help="build missing programs of tests/others",
    )
    parser.addoption(
        "--keep-results",
        action="store_true",
        help="write the results of tests/others to results.json",
    )
    parser.addoption(
        "--record",
        action="store_true",
        help="with --cluster=real: record the responses of the real API server to tests/conformance",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that run only with --exhaustive (tests/scenarios/conftest.py does this for scenarios).

    With several workers, also deselect tests that need all processors. Skip tests of pages if there is no browser,
    unless PYKRUISE_REQUIRE_BROWSER=1.
    """
    unwanted = set[pytest.Item]()
    if not config.getoption("--exhaustive"):
        marked = (item for item in items if item.get_closest_marker("exhaustive"))
        unwanted |= {item for item in marked if "scenarios" not in item.path.parts}
    if hasattr(config, "workerinput"):
        unwanted |= {item for item in items if item.get_closest_marker("alone")}
    if unwanted:
        config.hook.pytest_deselected(items=list(unwanted))
        items[:] = [item for item in items if item not in unwanted]
    if config.getoption("--cluster") == "real":
        items.sort(key=lambda item: not item.get_closest_marker("long_on_real"))
    elif hasattr(config, "workerinput"):
        _spread_waiting(items)
    missing = [item for item in ("chromium", "chromedriver") if shutil.which(item) is None]
    if not missing or os.environ.get("PYKRUISE_REQUIRE_BROWSER") == "1":
        return
    reason = f"no {' and no '.join(missing)}: apt-get install $(cat testbed/browser-packages.txt)"
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason=reason))


def _spread_waiting(items: list[pytest.Item]) -> None:
    """Mix tests that wait with tests that compute, so that several workers use all processors until the end."""
    places: dict[pytest.Item, float] = {}
    for waits, last in ((True, 0.9), (False, 1.0)):
        group = [item for item in items if bool(item.get_closest_marker("real_time")) is waits]
        places.update({item: last * number / len(group) for number, item in enumerate(group)})
    items.sort(key=places.__getitem__)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Build the real control plane if it is requested. If that is impossible, report it in one line and exit."""
    # This is not a fixture, because a first build takes minutes, which must not count as the time of a test.
    if session.config.getoption("--cluster") != "real":
        return
    from testbed.build import NODE, BuildError, GoMissingError, MissingError, build
    from testbed.node import check

    try:
        build()
        if session.config.getoption("--real-nodes"):
            check()
            build(part=NODE)
    except BuildError as error:
        required = "PYKRUISE_REQUIRE_REAL" if isinstance(error, GoMissingError) else "PYKRUISE_REQUIRE_NODES"
        is_left_out = isinstance(error, MissingError) and os.environ.get(required) != "1"
        pytest.exit(str(error), returncode=0 if is_left_out else 1)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--exhaustive"):
        settings.load_profile("exhaustive")
    # pytest-asyncio gets the current loop to restore it later. If there was none, asyncio would create a
    # loop that is never closed (a ResourceWarning in the next test).
    asyncio.set_event_loop(None)
    gc.set_threshold(*GC_THRESHOLDS)


def pytest_collection_finish() -> None:
    """Freeze all present objects: they stay until the end, so garbage collection does not have to examine them."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Collect garbage between tests, when few other objects are young."""
    done = yield
    if gc.get_count()[0] > GARBAGE:
        gc.collect(0)
    return done


def pytest_sessionfinish() -> None:
    """Collect young garbage and freeze all other objects, because pytest collects garbage five times at its end."""
    gc.collect(1)
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def few_keys() -> Iterator[None]:
    """Webhooks create an RSA key for each authority and certificate, in 70 ms. Tests use a few keys in turn."""
    made = list[rsa.RSAPrivateKey]()
    number = itertools.count()
    make = certificate_work._make_key

    def next_key() -> rsa.RSAPrivateKey:
        if len(made) < KEYS:
            made.append(make())
        return made[next(number) % len(made)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificate_work, "_make_key", next_key)
        yield


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Number of workers with `-n auto`: more than processors, because tests with sockets and processes often wait."""
    counted = yield
    return counted if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") else counted * 5 // 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run all tests of a file in one worker if they share an expensive fixture; other tests run in any worker."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return path if _is_shared(config.rootpath, path) else nodeid

    return Together(config, log)


@functools.cache
def _is_shared(root: Path, path: str) -> bool:
    """Whether one worker should run all tests of a file: the tests are small, or share a session or a control plane."""
    is_small = path.startswith(("packages/", "tests/unit/", "tests/conformance/"))
    return is_small or 'scope="module"' in (root / path).read_text()


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests and their fixtures run in virtual time, except with `@pytest.mark.real_time` and on real clusters.

    On a real cluster, the loop is the same as in the manager's process. A fixture has the loop of its test, so that
    calls which the fixture scheduled are due in the test's time.
    """
    on_real_cluster = config.getoption("--cluster") == "real" and "scenarios" in item.path.parts
    if on_real_cluster:
        return {"real": uvloop.new_event_loop}
    if item.get_closest_marker("real_time"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}
