"""Check how long pods took to become ready after their creation or an update in place, by the times in the pods.

    python3 pods.py --since update --selector harness=cloneset --pods 3000 --p99 5

`--since update`: from the write of the manager, whose time is in the annotation `apps.kruise.io/inplace-update-state`,
until the pod's condition Ready is true again. Before and after this time the pod is in service. `--since creation`:
from the creation of the pod. All times are in whole seconds. The exit code is 1 if a pod is not ready or was not
updated in place, or if the threshold is exceeded. Needs kubectl.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

STATE: Final = "apps.kruise.io/inplace-update-state"
CREATION: Final = "creation"
UPDATE: Final = "update"

Document = dict[str, Any]


class Figures(NamedTuple):
    """Number of pods, of those that were not updated in place or are not ready, and the seconds of the others."""

    pods: int
    not_in_place: int
    not_ready: int
    seconds: tuple[float, ...]


def measure(pods: Sequence[Document], since: str) -> Figures:
    """Read the times of pods."""
    times = [read_seconds(pod, begin) for pod in pods if (begin := read_begin(pod, since)) is not None]
    measured = sorted(time for time in times if time is not None)
    return Figures(len(pods), len(pods) - len(times), len(times) - len(measured), tuple(measured))


def read_begin(pod: Document, since: str) -> datetime | None:
    """Return the time of the creation or of the update. None: the pod was not updated in place."""
    if since == CREATION:
        return read_time(pod["metadata"]["creationTimestamp"])
    state = pod["metadata"].get("annotations", {}).get(STATE)
    return read_time(json.loads(state)["updateTimestamp"]) if state else None


def read_seconds(pod: Document, begin: datetime) -> float | None:
    """Return the seconds until the pod was ready. None: it is not."""
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "Ready" and condition["status"] == "True":
            return max(0.0, (read_time(condition["lastTransitionTime"]) - begin).total_seconds())
    return None


def read_time(text: str) -> datetime:
    """Read an RFC 3339 time of Kubernetes."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def percentile(values: Sequence[float], part: float) -> float:
    """Return a percentile of the sorted values; the `part` 0.99 means the 99th percentile."""
    return values[max(0, math.ceil(part * len(values)) - 1)] if values else 0.0


def list_problems(figures: Figures, *, pods: int, p99_s: float) -> list[str]:
    """Describe the problems, each in one sentence."""
    problems = []
    if figures.pods != pods:
        problems.append(f"there are {figures.pods} pods instead of {pods}")
    if figures.not_in_place:
        problems.append(f"{figures.not_in_place} of {figures.pods} pods were not updated in place")
    if figures.not_ready:
        problems.append(f"{figures.not_ready} of {figures.pods} pods are not ready")
    if (p99 := percentile(figures.seconds, 0.99)) > p99_s:
        problems.append(
            f"the 99th percentile of the time until pods are ready is {p99:g} s, longer than {p99_s:g} s"
        )
    return problems


def report(figures: Figures, problems: Sequence[str]) -> Document:
    """Return the figures and the problems as JSON values: programs that run this program do not show its output."""
    return {
        "problems": list(problems),
        "pods": figures.pods,
        "notInPlace": figures.not_in_place,
        "notReady": figures.not_ready,
        "secondsUntilReady": {
            **{f"p{part}": percentile(figures.seconds, part / 100) for part in (50, 95, 99)},
            "max": max(figures.seconds, default=0.0),
        },
    }


def list_pods(selector: str) -> list[Document]:
    """List the pods of all namespaces with these labels, without those that are being deleted."""
    command = ["kubectl", "get", "pods", "--all-namespaces", f"--selector={selector}", "--output=json"]
    listed: Document = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return [pod for pod in listed["items"] if "deletionTimestamp" not in pod["metadata"]]


def main() -> int:
    """Check the pods, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--selector", required=True, help="labels of the pods")
    parser.add_argument("--since", required=True, choices=(CREATION, UPDATE), help="start of the time")
    parser.add_argument("--pods", type=int, required=True, help="expected number of pods")
    parser.add_argument("--p99", type=float, required=True, help="longest 99th percentile, in seconds")
    parser.add_argument("--report", type=Path, help="file for the figures, JSON")
    asked = parser.parse_args()
    figures = measure(list_pods(asked.selector), asked.since)
    problems = list_problems(figures, pods=asked.pods, p99_s=asked.p99)
    text = json.dumps(report(figures, problems))
    print(text)
    if asked.report:
        asked.report.parent.mkdir(parents=True, exist_ok=True)
        asked.report.write_text(text + "\n")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
