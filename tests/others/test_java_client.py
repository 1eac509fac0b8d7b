"""The Java client of Kubernetes (fabric8), unchanged, with every kind in every version.

It watches over WebSockets, in the sandbox and on a real API server.

pom.xml ──Maven──▶ its archives ──javac──▶ Work.java (testbed/java-client-*), kept in the cache of the testbed
"""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from others.client_work import Place
from others.test_go_clients import as_json
from testbed.build import HERE, cache_dir

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]

RELEASE: Final = "8.0"
VERSION: Final = "8.0.0"
LONGEST_S: Final = 240.0
SOURCE: Final = HERE / f"java-client-{RELEASE}"


@pytest.fixture(scope="module")
def program(request: pytest.FixtureRequest) -> list[str]:
    """The command that runs the client; skips the test if the client is not built and may not be built."""
    missing = [name for name in ("java", "javac", "mvn") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)}")
    sources = b"".join((SOURCE / name).read_bytes() for name in ("pom.xml", "Work.java"))
    folder = cache_dir() / f"{SOURCE.name}-{hashlib.sha256(sources).hexdigest()[:16]}"
    if not folder.exists():
        if not request.config.getoption("--build-others"):
            pytest.skip("the Java client is not built yet: make test-others")
        build(folder)
    return ["java", "-cp", f"{folder}/classes:{folder}/archives/*", "Work"]


def build(folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "classes").mkdir(parents=True)
    download = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={partial}/archives"]
    compile_it = ["javac", "-cp", f"{partial}/archives/*", "-d", f"{partial}/classes", "Work.java"]
    for command in (download, compile_it):
        done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    partial.rename(folder)


@pytest.mark.program(
    "fabric8 kubernetes-client (Java)",
    VERSION,
    "every kind in every version: list, create, informer, patch, scale, status, delete",
)
def test_the_java_client_works_with_every_kind_in_every_version(place: Place, program: list[str]) -> None:
    work = [as_json(item) for item in place.work("java")]
    done = subprocess.run(
        program,
        input=json.dumps(work),
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_S,
        env={**os.environ, "KUBECONFIG": str(place.kubeconfig)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == len(work)
