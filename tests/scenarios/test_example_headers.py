"""The commands in the header of each example do what its comments say, after `kubectl apply -f examples/`.

examples/*.yaml ──▶ commands of the header, one by one, in one `pykruise up` ──▶ what the cluster shows then
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.up import Up, pauses, running_up

pytestmark = [pytest.mark.sandbox_only, pytest.mark.real_time]

ROOT: Final = Path(__file__).parents[2]
FILES: Final = sorted((ROOT / "examples").glob("*.yaml"))

_COUNT: Final = "-o jsonpath={.status.%s}"
_IMAGES: Final = "-o jsonpath={.items[*].spec.containers[*].image}"

SHOWN: Final = {
    "cloneset-canary": ("clonesets front " + _COUNT % "updatedReadyReplicas", "10"),
    "cloneset-claims": ("pods -l app=store --no-headers -o name", r"(pod/\S+\s+){3}"),
    "cloneset-hooks": ("pods -l app=edge --no-headers -o name", r"(pod/\S+\s+){2}"),
    "cloneset-in-place": ("clonesets shop " + _COUNT % "updatedReadyReplicas", "10"),
    "cloneset-on-delete": ("clonesets ledger " + _COUNT % "updatedReplicas", "1"),
    "cloneset-resize": ("clonesets search " + _COUNT % "updatedReadyReplicas", r"\d+"),
    "cloneset-scaling": ("clonesets queue " + _COUNT % "replicas", "4"),
    "containerrecreaterequest": ("crr restart-steady-0 " + _COUNT % "phase", "Completed"),
    "daemonset-canary": ("daemonsets.apps.kruise.io agent " + _COUNT % "updatedNumberScheduled", "1"),
    "imagelistpulljob": ("imagelistpulljobs -o jsonpath={.items[0].status.succeeded}", r"\d+"),
    "imagepulljob": ("imagepulljobs nginx-ahead " + _COUNT % "succeeded", "3"),
    "persistentpodstate": ("pod sticky-1 " + _COUNT % "phase", "Running"),
    "resourcedistribution": ("configmaps -n default -o name", r"(configmap/\S+\s+){2,}"),
    "sidecarset": (f"pods -l app=logged {_IMAGES}", r"(?!.*fluent-bit:3\.1).*fluent-bit:3\.2.*"),
    "statefulset-parallel": ("pod shard-1 -o jsonpath={.spec.containers[0].image}", "redis:7.4"),
    "uniteddeployment": ("uniteddeployments zoned " + _COUNT % "replicas", "8"),
    "workloadspread": ("clonesets spread " + _COUNT % "replicas", "3"),
}
"""Output of kubectl at the end, for examples whose header describes the result of its commands."""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running_up(tmp_path_factory.mktemp("up")) as cluster:
        cluster.says("apply", "-f", str(ROOT / "examples"))
        cluster.until("get", "clonesets", "shop", "-o", "jsonpath={.status.readyReplicas}", shows="10")
        yield cluster


@pytest.mark.timeout(120)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_commands_in_an_examples_header_have_their_described_effect(file: Path, up: Up) -> None:
    for command in commands_of(file.read_text("utf-8")):
        until_done(named(command, up, file) if "<" in command else command, up)
    if file.stem in SHOWN:
        what, shown = SHOWN[file.stem]
        until_shown(what, shown, up)


def test_every_outcome_is_of_an_example() -> None:
    assert SHOWN.keys() <= {file.stem for file in FILES}


def commands_of(text: str) -> Iterator[str]:
    """Commands in the comments at the top, without `pykruise up`; without `-w`, because a watch does not end."""
    header = text.partition("apiVersion:")[0].replace("\\\n#", " ")
    header = re.sub(r"\n#     (?=\")", " ", header)
    for line in header.splitlines():
        if (match := re.match(r"#   +((?:kubectl|pykruise) .*)", line)) and "pykruise up" not in line:
            yield re.sub(r" -w\b", "", re.sub(r"\s{2,}# .*", "", match[1]))


def named(command: str, up: Up, file: Path) -> str:
    """The command with a pod of the example's workload instead of a placeholder."""
    label = re.search(r"matchLabels: *\{? *\n? *app: ([\w-]+)", file.read_text("utf-8"))
    assert label, file
    columns = "custom-columns=NAME:.metadata.name,STATE:.metadata.labels.lifecycle\\.apps\\.kruise\\.io/state"
    state = "PreparingDelete" if "<that one>" in command else ""
    up.until("get", "pods", "-l", f"app={label[1]}", "-o", columns, shows=state or label[1])
    rows = up.says("get", "pods", "-l", f"app={label[1]}", "-o", columns, "--no-headers").splitlines()
    pod = next(row.split()[0] for row in rows if state in row)
    return re.sub(r"<(one of them|that one)>", pod, command)


def until_done(command: str, up: Up) -> None:
    """Run the command; a command that only reads is repeated until its object exists."""
    end = time.monotonic() + (30 if re.match(r"kubectl (get|label)|pykruise", command) else 0)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environ = {
        **os.environ,
        "KUBECONFIG": str(up.kubeconfig),
        "HOME": str(up.kubeconfig.parent),
        "PATH": path,
    }
    for pause_s in pauses():
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode == 0:
            return
        assert time.monotonic() < end, f"$ {command}\n{done.stdout}{done.stderr}"
        time.sleep(pause_s)


def until_shown(what: str, shown: str, up: Up) -> None:
    """Wait until kubectl shows the result that the header describes."""
    end = time.monotonic() + 60
    for pause_s in pauses():
        said = up.kubectl("get", *what.split()).stdout
        if re.fullmatch(shown, said):
            return
        assert time.monotonic() < end, f"kubectl get {what} shows {said!r}, not {shown}"
        time.sleep(pause_s)
