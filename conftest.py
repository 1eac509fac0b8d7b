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
"""Number of keys that are used in turn; tests with several replicas need about 24."""

GC_THRESHOLDS = (200_000, 20, 50)
"""Allocations between looks at the youngest objects, and so on: a cluster makes many that live as long as it does."""
GARBAGE = 10_000
"""Of a test that leaves more objects than that, its cluster is cleared away before the next one begins. Else each of
them would use other memory, which the processor has to fetch first."""


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
        help="scenarios with two parameters: every field of their grid, and not only every eighth one; "
        "properties: ten times as many examples",
    )
    parser.addoption(
        "--brief",
        action="store_true",
        help="with --cluster=real: of each scenario's parameters an eighth, at least one",
    )
    parser.addoption(
        "--stored",
        choices=("v1alpha1", "v1beta1"),
        default="v1beta1",
        help="scenarios in the sandbox: the version that stores kinds of two versions; v1alpha1: no other is served",
    )
    parser.addoption(
        "--build-others",
        action="store_true",
        help="build what tests/others runs and is missing",
    )
    parser.addoption(
        "--keep-results",
        action="store_true",
        help="write down what became of the programs that tests/others runs",
    )
    parser.addoption(
        "--record",
        action="store_true",
        help="with --cluster=real: keep what the real API server answers to tests/conformance",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that run only with --exhaustive (of scenarios: tests/scenarios/conftest.py), with several workers
    those that need all processors, and those that need a browser if there is none; with PYKRUISE_REQUIRE_BROWSER=1
    these fail."""
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
    """With several workers: tests that wait run beside those that compute, and none of them alone at the end."""
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
    """What is there by now stays to the end: garbage collection need not look at it again and again."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Look for garbage between tests: there is little else then."""
    done = yield
    if gc.get_count()[0] > GARBAGE:
        gc.collect(0)
    return done


def pytest_sessionfinish() -> None:
    """pytest looks for garbage five times at its end: it finds nothing then, as what is young is cleared away here, and
    what is old stays out of its sight."""
    gc.collect(1)
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def few_keys() -> Iterator[None]:
    """Webhooks make an RSA key for every authority and certificate, 70 ms each: here the same few, in turn."""
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
    """With `-n auto`. Tests over sockets and of processes wait a good deal, so there are more than processors."""
    counted = yield
    return counted if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") else counted * 5 // 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers, tests of a file that share something dear go to one of them; others each to any."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return path if _is_shared(config.rootpath, path) else nodeid

    return Together(config, log)


@functools.cache
def _is_shared(root: Path, path: str) -> bool:
    """Whether the tests of a file are cheaper together: they are small, or share a session or a control plane."""
    is_small = path.startswith(("packages/", "tests/unit/", "tests/conformance/"))
    return is_small or 'scope="module"' in (root / path).read_text()


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Virtual time for everything, fixtures included; `@pytest.mark.real_time` and real clusters opt out.

    On a real cluster the loop is the one of the manager's process.

    Fixtures must share the test's time: what a cluster's fixture has scheduled would else be due in another one.
    """
    on_real_cluster = config.getoption("--cluster") == "real" and "scenarios" in item.path.parts
    if on_real_cluster:
        return {"real": uvloop.new_event_loop}
    if item.get_closest_marker("real_time"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}
