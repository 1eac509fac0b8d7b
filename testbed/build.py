"""Build a Kubernetes control plane, the programs of its nodes, and OpenKruise's managers, once, from Go modules.

The modules beside this file name the versions. The binaries go to a cache outside the repository:
$PYKRUISE_TESTBED_CACHE, or ${XDG_CACHE_HOME:-~/.cache}/pykruise/testbed. The name of a folder contains a hash of
everything that decides its content, so it is built once, and a changed version gets another folder.

``python testbed/build.py --kubernetes 1.37`` prints the folder that holds kube-apiserver, kube-controller-manager,
kube-scheduler, kubectl and etcd. With ``--node`` it prints the folder with kubelet and kube-proxy. That is a separate
build, so tests without nodes do not have to wait for it. With ``--openkruise 1.8`` it prints the folder with
OpenKruise's manager of that release.
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
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFAULT_VERSION = "1.37"

ETCD_PACKAGE = "go.etcd.io/etcd/server/v3"

GO_FLAGS = ("-mod=readonly", "-buildvcs=false", "-trimpath")
GO_ENV = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}


class BuildError(Exception):
    """The binaries cannot be built; the message is one line."""


class MissingError(BuildError):
    """The machine lacks something that the build needs; the message says how to get it."""


class GoMissingError(MissingError):
    """Go is not installed."""


def default_version() -> str:
    """Return the Kubernetes minor in $KUBERNETES, or else the newest supported minor."""
    return os.environ.get("KUBERNETES") or DEFAULT_VERSION


def cache_dir() -> Path:
    """Return the folder of all builds, logs and locks."""
    if own := os.environ.get("PYKRUISE_TESTBED_CACHE"):
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "pykruise" / "testbed"


@dataclass(frozen=True)
class Part:
    """Programs that are built together into one folder of the cache."""

    name: str
    """Name of the part. Its modules are the folders "<name>-<minor>" beside this file, and its folders in the cache
    have the same prefix.
    """
    commands: tuple[str, ...]
    """Commands below k8s.io/kubernetes/cmd."""
    with_etcd: bool = False
    title: str = ""
    module: str = "k8s.io/kubernetes"
    """The Go module whose version is built."""
    product: str = "Kubernetes"
    package: str = ""
    """The package of its program within the module; "." is one of our programs, with its source beside its go.mod."""

    @property
    def binaries(self) -> tuple[str, ...]:
        """The programs in its folder. The first one is asked for its version."""
        return (*self.commands, "etcd") if self.with_etcd else self.commands

    @property
    def minors(self) -> tuple[str, ...]:
        """The minors of Kubernetes for which it can be built."""
        return tuple(sorted(path.name.removeprefix(f"{self.name}-") for path in HERE.glob(f"{self.name}-*")))

    def is_complete(self, folder: Path) -> bool:
        """Whether a folder contains all programs of this part."""
        return all(os.access(folder / name, os.X_OK) for name in self.binaries)

    def list_modules(self, minor: str) -> list[Path]:
        """Return the Go modules that decide the content of a build."""
        return [HERE / f"{self.name}-{minor}", *([HERE / "etcd"] if self.with_etcd else [])]

    def list_go_builds(self, minor: str, target: Path) -> Iterator[tuple[list[str], Path]]:
        """Yield each ``go build``: its arguments and the folder of the module in which it runs."""
        module = HERE / f"{self.name}-{minor}"
        is_kubernetes = self.product == "Kubernetes"
        if self.package == ".":
            packages, output = ["."], str(target / self.commands[0])
        elif is_kubernetes:
            packages, output = [f"{self.module}/cmd/{command}" for command in self.commands], f"{target}/"
        else:
            path = "/".join(filter(None, (self.module, self.package)))
            packages = (
                [f"{path}/{command}" for command in self.commands] if len(self.commands) > 1 else [path]
            )
            output = f"{target}/"
        linker = _linker_flags(_version_of(self, module)) if is_kubernetes else "-s -w"
        if self.with_etcd:
            etcd = [*GO_FLAGS, "-ldflags", "-s -w", "-o", str(target / "etcd"), ETCD_PACKAGE]
            yield etcd, HERE / "etcd"
        yield [*GO_FLAGS, "-ldflags", linker, "-o", output, *packages], module


CONTROL_PLANE = Part(
    "kubernetes",
    ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
    with_etcd=True,
)
NODE = Part("node", ("kubelet", "kube-proxy"), title="'s kubelet")
OPENKRUISE = Part(
    "openkruise", ("kruise",), title="'s manager", module="github.com/openkruise/kruise", product="OpenKruise"
)
ROLLOUTS = Part(
    "rollouts",
    ("rollouts",),
    title="'s manager",
    module="github.com/openkruise/rollouts",
    product="OpenKruise Rollouts",
)
STATE_METRICS = Part(
    "kube-state-metrics",
    ("kube-state-metrics",),
    module="k8s.io/kube-state-metrics/v2",
    product="kube-state-metrics",
)
CLIENT_GO = Part(
    "client-go", ("client-go",), module="k8s.io/client-go", product="a program with client-go", package="."
)
FLUX = Part(
    "flux-ssa",
    ("flux",),
    module="github.com/fluxcd/pkg/ssa",
    product="a program with Flux's packages",
    package=".",
)
ARGO_CD = Part(
    "argo-cd",
    ("argo",),
    module="github.com/argoproj/argo-cd/v3",
    product="a program with Argo CD's packages",
    package=".",
)
GAME = Part(
    "kruise-game",
    ("kruise-game",),
    title="'s manager",
    module="github.com/openkruise/kruise-game",
    product="kruise-game",
)
HELM = Part("helm", ("helm",), module="helm.sh/helm/v4", product="Helm", package="cmd/helm")
KARMADA = Part(
    "karmada",
    ("karmada",),
    module="github.com/karmada-io/karmada",
    product="a program with Karmada's interpreter",
    package=".",
)
KEDA = Part(
    "keda",
    ("keda",),
    module="github.com/kedacore/keda/v2",
    product="a program with KEDA's packages",
    package=".",
)
VPA = Part(
    "vpa",
    ("vpa",),
    module="k8s.io/autoscaler/vertical-pod-autoscaler",
    product="a program with VPA's packages",
    package=".",
)
KARPENTER = Part(
    "karpenter",
    ("karpenter",),
    module="sigs.k8s.io/karpenter",
    product="a program with Karpenter's packages",
    package=".",
)
DESCHEDULER = Part(
    "descheduler",
    ("descheduler",),
    module="sigs.k8s.io/descheduler",
    product="descheduler",
    package="cmd/descheduler",
)
OTHERS = (
    ROLLOUTS,
    STATE_METRICS,
    CLIENT_GO,
    FLUX,
    ARGO_CD,
    GAME,
    HELM,
    KARMADA,
    KEDA,
    VPA,
    KARPENTER,
    DESCHEDULER,
)
"""Programs of other projects that run beside pykruise in tests/others."""
VERSIONS = CONTROL_PLANE.minors


def build(kubernetes: str | None = None, *, part: Part = CONTROL_PLANE) -> Path:
    """Return the folder with a part's binaries of a Kubernetes minor, and build it if it is missing.

    Without Go, binaries of the right version in the cache are enough. Raises BuildError.
    """
    minor = kubernetes or default_version()
    if minor not in part.minors:
        raise BuildError(
            f"no {part.product} {minor}{part.title} in the testbed; there are {', '.join(part.minors)}"
        )
    cache = cache_dir()
    try:
        ready = _folder_of(part, minor)
    except GoMissingError:
        if built_before := _find_earlier_build(part, minor, cache):
            return built_before
        raise
    if part.is_complete(ready):
        return ready
    cache.mkdir(parents=True, exist_ok=True)
    with _lock(ready.with_name(f"{ready.name}.lock")):
        if not part.is_complete(ready):  # another process may have built it in the meantime
            _build(part, minor, ready)
    return ready


def is_built(minor: str, *, part: Part = CONTROL_PLANE) -> bool:
    """Whether the binaries of this minor are in the cache, so that `build()` need not build."""
    try:
        return part.is_complete(_folder_of(part, minor))
    except GoMissingError:
        return _find_earlier_build(part, minor, cache_dir()) is not None


def _folder_of(part: Part, minor: str) -> Path:
    return cache_dir() / f"{part.name}-{minor}-{_key_of(part, minor)}"


def _find_earlier_build(part: Part, minor: str, cache: Path) -> Path | None:
    """Return a folder of the cache with the wanted version of this minor, built by any version of Go."""
    if part.product != "Kubernetes":
        return None  # the program cannot print its version
    wanted = f"Kubernetes {_version_of(part, part.list_modules(minor)[0])}"
    for folder in sorted(cache.glob(f"{part.name}-{minor}-*")):
        if not part.is_complete(folder):
            continue
        command = [str(folder / part.binaries[0]), "--version"]
        if subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() == wanted:
            return folder
    return None


def _build(part: Part, minor: str, ready: Path) -> None:
    partial = ready.with_name(f"{ready.name}.partial")
    log = ready.with_name(f"{ready.name}.log")
    for leftover in (partial, ready):  # left by a build that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    partial.mkdir()
    log.write_text("")
    version = _version_of(part, part.list_modules(minor)[0])
    _say(f"building {part.product} {version}{part.title}; the first time takes minutes (log: {log})")
    started = time.monotonic()
    try:
        for arguments, module in part.list_go_builds(minor, partial):
            _go_build(arguments, module, log)
        partial.rename(ready)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _say(f"built in {time.monotonic() - started:.0f} s")


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


def _version_of(part: Part, module: Path) -> str:
    text = (module / "go.mod").read_text()
    required = re.search(rf"^\s*(?:require )?{re.escape(part.module)} (v\S+)", text, re.MULTILINE)
    if not required:
        raise BuildError(f"testbed/{module.name}/go.mod does not require {part.module}")
    return required[1]


def find_source_folder(part: Part, minor: str) -> Path:
    """Return the folder with the source of the Go module of a part. Raises BuildError."""
    command = ["go", "list", "-m", "-f", "{{.Dir}}", part.module]
    folder = part.list_modules(minor)[0]
    done = subprocess.run(command, cwd=folder, env=_go_env(), capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        raise BuildError(f"go list in testbed/{folder.name} failed: {' '.join(done.stderr.split())}")
    return Path(done.stdout.strip())


def _linker_flags(version: str) -> str:
    """Return linker flags that omit debug information and set the version for /version and user agents."""
    major, minor, _ = version.removeprefix("v").split(".", 2)
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    settings = [f"-X {package}.{name}={value}" for package in packages for name, value in values.items()]
    return " ".join(["-s", "-w", *settings])


def _key_of(part: Part, minor: str) -> str:
    digest = hashlib.sha256()
    for module in part.list_modules(minor):
        sources = sorted(path.name for path in module.glob("*.go")) if part.package == "." else []
        for name in ("go.mod", "go.sum", *sources):
            digest.update((module / name).read_bytes())
    commands = [arguments for arguments, _ in part.list_go_builds(minor, Path("target"))]
    digest.update(repr([_read_go_platform(), sorted(GO_ENV.items()), commands]).encode())
    return digest.hexdigest()[:16]


def _read_go_platform() -> str:
    """Return the version and the target of the Go toolchain that builds."""
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


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock that is released when this process ends, even if it is killed."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"testbed: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Build, and print the folder."""
    parser = argparse.ArgumentParser(description="Build a Kubernetes control plane and print its folder.")
    parser.add_argument("--kubernetes", metavar="MINOR", help=f"one of {', '.join(VERSIONS)}")
    parser.add_argument("--node", action="store_true", help="build what nodes run, and not the control plane")
    parser.add_argument(
        "--openkruise",
        metavar="MINOR",
        help=f"build OpenKruise's manager of this release alone, one of {', '.join(OPENKRUISE.minors)}",
    )
    options = parser.parse_args()
    try:
        if options.openkruise:
            print(build(options.openkruise, part=OPENKRUISE))
        else:
            print(build(options.kubernetes, part=NODE if options.node else CONTROL_PLANE))
    except (BuildError, OSError) as error:
        _say(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
