"""Check updates in place: how long each pod was out of service, read from the pods after a rollout.

    python3 in_place.py --selector harness=cloneset --pods 3000 --p99 5

A pod is out of service from the write of the manager, whose time is in the annotation
`apps.kruise.io/inplace-update-state`, until the pod's condition Ready is true again. Both times are in whole seconds.
The exit code is 1 if a pod was not updated in place or is not ready, or if a threshold is exceeded. Needs kubectl.
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

Document = dict[str, Any]


class Outage(NamedTuple):
    """Number of pods in each state, and the seconds out of service of those that were updated in place."""

    pods: int
    not_in_place: int
    not_ready: int
    seconds: tuple[float, ...]


def measure(pods: Sequence[Document]) -> Outage:
    """Read the outages of pods."""
    times = [seconds_out_of_service(pod) for pod in pods if STATE in pod["metadata"].get("annotations", {})]
    measured = sorted(time for time in times if time is not None)
    return Outage(len(pods), len(pods) - len(times), len(times) - len(measured), tuple(measured))


def seconds_out_of_service(pod: Document) -> float | None:
    """Return the time from the write of an update in place until the pod is ready. None: it is not ready yet."""
    began = read_time(json.loads(pod["metadata"]["annotations"][STATE])["updateTimestamp"])
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "Ready" and condition["status"] == "True":
            return max(0.0, (read_time(condition["lastTransitionTime"]) - began).total_seconds())
    return None


def read_time(text: str) -> datetime:
    """Read an RFC 3339 time of Kubernetes."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def percentile(values: Sequence[float], part: float) -> float:
    """Return the smallest value that at least this part of the sorted values does not exceed."""
    return values[max(0, math.ceil(part * len(values)) - 1)] if values else 0.0


def list_problems(outage: Outage, *, pods: int, p99_s: float) -> list[str]:
    """Describe what is wrong, one sentence each."""
    problems = []
    if outage.pods != pods:
        problems.append(f"there are {outage.pods} pods instead of {pods}")
    if outage.not_in_place:
        problems.append(f"{outage.not_in_place} of {outage.pods} pods were not updated in place")
    if outage.not_ready:
        problems.append(f"{outage.not_ready} of {outage.pods} pods are not ready")
    if (p99 := percentile(outage.seconds, 0.99)) > p99_s:
        problems.append(
            f"the 99th percentile of the time out of service is {p99:g} s, longer than {p99_s:g} s"
        )
    return problems


def report(outage: Outage) -> Document:
    """Return the figures as JSON values."""
    return {
        "pods": outage.pods,
        "notInPlace": outage.not_in_place,
        "notReady": outage.not_ready,
        "outOfServiceSeconds": {
            **{f"p{part}": percentile(outage.seconds, part / 100) for part in (50, 95, 99)},
            "max": max(outage.seconds, default=0.0),
        },
    }


def list_pods(selector: str) -> list[Document]:
    """List the pods of all namespaces with these labels."""
    command = ["kubectl", "get", "pods", "--all-namespaces", f"--selector={selector}", "--output=json"]
    listed: Document = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    pods: list[Document] = listed["items"]
    return pods


def main() -> int:
    """Check the pods, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--selector", required=True, help="labels of the pods")
    parser.add_argument("--pods", type=int, required=True, help="expected number of pods")
    parser.add_argument("--p99", type=float, required=True, help="longest 99th percentile, in seconds")
    parser.add_argument("--report", type=Path, help="file for the figures, JSON")
    asked = parser.parse_args()
    outage = measure(list_pods(asked.selector))
    figures = json.dumps(report(outage))
    print(figures)
    if asked.report:
        asked.report.parent.mkdir(parents=True, exist_ok=True)
        asked.report.write_text(figures + "\n")
    problems = list_problems(outage, pods=asked.pods, p99_s=asked.p99)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
