"""Build a Kubernetes control plane from Go modules, once.

The modules beside this file name the versions. The binaries go to a cache outside the repository:
$PYKRUISE_TESTBED_CACHE, or ${XDG_CACHE_HOME:-~/.cache}/pykruise/testbed. A folder there is named by a hash of
everything that decides its content, so it is built once and a changed version gets a folder of its own.

``python testbed/build.py --kubernetes 1.37`` prints the folder that holds kube-apiserver,
kube-controller-manager, kube-scheduler, kubectl and etcd.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSIONS = tuple(sorted(path.name.removeprefix("kubernetes-") for path in HERE.glob("kubernetes-*")))
DEFAULT_VERSION = "1.37"

KUBERNETES_COMMANDS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
ETCD_PACKAGE = "go.etcd.io/etcd/server/v3"
BINARIES = (*KUBERNETES_COMMANDS, "etcd")

GO_FLAGS = ("-mod=readonly", "-buildvcs=false", "-trimpath")
GO_ENV = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}


class BuildError(Exception):
    """The binaries cannot be built; the message is one line."""


class GoMissingError(BuildError):
    """There is no Go to build with."""


def default_version() -> str:
    """The Kubernetes minor asked for by $KUBERNETES, else the newest one supported."""
    return os.environ.get("KUBERNETES") or DEFAULT_VERSION


def cache_dir() -> Path:
    """The folder that holds all builds, logs and locks."""
    if own := os.environ.get("PYKRUISE_TESTBED_CACHE"):
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "pykruise" / "testbed"


def build(kubernetes: str | None = None) -> Path:
    """The folder with the binaries of a Kubernetes minor, built now if it is not there yet.

    Without Go, binaries of the right version that are in the cache already will do. Raises BuildError.
    """
    minor = kubernetes or default_version()
    if minor not in VERSIONS:
        raise BuildError(f"no Kubernetes {minor} in the testbed; there are {', '.join(VERSIONS)}")
    cache = cache_dir()
    try:
        ready = cache / f"kubernetes-{minor}-{_key(minor)}"
    except GoMissingError:
        if built_before := _built_before(minor, cache):
            return built_before
        raise
    if _complete(ready):
        return ready
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(ready.with_name(f"{ready.name}.lock")):
        if not _complete(ready):  # another process may have built it meanwhile
            _build(minor, ready)
    return ready


def _built_before(minor: str, cache: Path) -> Path | None:
    """A folder of the cache that holds this minor in the version wanted now, by whatever Go it was built."""
    wanted = f"Kubernetes {_kubernetes_version(minor)}"
    for folder in sorted(cache.glob(f"kubernetes-{minor}-*")):
        if not _complete(folder):
            continue
        command = [str(folder / "kube-apiserver"), "--version"]
        if subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() == wanted:
            return folder
    return None


def _build(minor: str, ready: Path) -> None:
    partial = ready.with_name(f"{ready.name}.partial")
    log = ready.with_name(f"{ready.name}.log")
    for leftover in (partial, ready):  # of a build that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    partial.mkdir()
    log.write_text("")
    _say(f"building Kubernetes {_kubernetes_version(minor)}; the first time takes minutes (log: {log})")
    started = time.monotonic()
    try:
        for arguments, module in _go_builds(minor, partial):
            _go_build(arguments, module, log)
        partial.rename(ready)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _say(f"built in {time.monotonic() - started:.0f} s")


def _go_builds(minor: str, target: Path) -> Iterator[tuple[list[str], Path]]:
    """Each ``go build``: its arguments and the module it runs in."""
    packages = [f"k8s.io/kubernetes/cmd/{command}" for command in KUBERNETES_COMMANDS]
    linker = _linker_flags(_kubernetes_version(minor))
    yield [*GO_FLAGS, "-ldflags", "-s -w", "-o", str(target / "etcd"), ETCD_PACKAGE], HERE / "etcd"
    yield [*GO_FLAGS, "-ldflags", linker, "-o", f"{target}/", *packages], HERE / f"kubernetes-{minor}"


def _go_build(arguments: list[str], module: Path, log: Path) -> None:
    with log.open("ab") as output:
        done = subprocess.run(
            ["go", "build", *arguments],
            cwd=module,
            env=_go_env(),
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        last = log.read_text(errors="replace").strip().rpartition("\n")[2].strip() or "no output"
        raise BuildError(f"go build in testbed/{module.name} failed: {last} (log: {log})")


def _kubernetes_version(minor: str) -> str:
    text = (HERE / f"kubernetes-{minor}" / "go.mod").read_text()
    found = re.search(r"^\s*(?:require )?k8s\.io/kubernetes (v\S+)", text, re.MULTILINE)
    if not found:
        raise BuildError(f"testbed/kubernetes-{minor}/go.mod does not require k8s.io/kubernetes")
    return found[1]


def _linker_flags(version: str) -> str:
    """Leave debug information out, and put in the version that /version and user agents tell."""
    major, minor, _ = version.removeprefix("v").split(".", 2)
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    settings = [f"-X {package}.{name}={value}" for package in packages for name, value in values.items()]
    return " ".join(["-s", "-w", *settings])


def _key(minor: str) -> str:
    digest = hashlib.sha256()
    for module in (HERE / f"kubernetes-{minor}", HERE / "etcd"):
        for name in ("go.mod", "go.sum"):
            digest.update((module / name).read_bytes())
    commands = [arguments for arguments, _ in _go_builds(minor, Path("target"))]
    digest.update(repr([_go_platform(), sorted(GO_ENV.items()), commands]).encode())
    return digest.hexdigest()[:16]


def _go_platform() -> str:
    """Go's version and target, from the toolchain that will do the build."""
    try:
        command = ["go", "env", "GOVERSION", "GOOS", "GOARCH"]
        done = subprocess.run(
            command, cwd=HERE / "etcd", env=_go_env(), capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise GoMissingError(
            "Go is not installed, so there is no real control plane (it is built with Go 1.26 or newer)"
        ) from None
    if done.returncode:
        raise BuildError(f"go does not work: {' '.join(done.stderr.split())}")
    return done.stdout


def _go_env() -> dict[str, str]:
    return {**os.environ, **GO_ENV}


def _complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in BINARIES)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that ends with this process, however it ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"testbed: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Build, and print the folder."""
    parser = argparse.ArgumentParser(description="Build a Kubernetes control plane and print its folder.")
    parser.add_argument("--kubernetes", metavar="MINOR", help=f"one of {', '.join(VERSIONS)}")
    try:
        print(build(parser.parse_args().kubernetes))
    except (BuildError, OSError) as error:
        _say(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
