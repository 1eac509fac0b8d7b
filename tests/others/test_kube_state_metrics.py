"""kube-state-metrics, unchanged, with the file that `pykruise manifests kube-state-metrics` prints."""

import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from others.cluster import Cluster
from others.conftest import Loop
from pykruise.manager.kube_state_metrics import build_custom_resource_state
from testbed.build import STATE_METRICS, Part
from testbed.processes import free_ports

RELEASE: Final = STATE_METRICS.minors[-1]
EXAMPLES: Final = Path(__file__).parents[2] / "examples"
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]


class Scrape:
    """The text for Prometheus, and the log of the program."""

    def __init__(self, port: int, log: Path) -> None:
        self._port, self.log = port, log

    def __call__(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())


@pytest.fixture(scope="module")
def scrape(
    needed: Callable[[Part, str], Path], cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scrape]:
    """The program, started."""
    folder = tmp_path_factory.mktemp("kube-state-metrics")
    program = needed(STATE_METRICS, RELEASE) / "kube-state-metrics"
    config = folder / "custom-resource-state.yaml"
    config.write_text(yaml.safe_dump(build_custom_resource_state()))
    port, telemetry = free_ports(2)
    command = [str(program), f"--kubeconfig={cluster.plane.kubeconfig}", "--custom-resource-state-only"]
    command += [f"--custom-resource-state-config-file={config}", "--host=127.0.0.1", f"--port={port}"]
    command += ["--telemetry-host=127.0.0.1", f"--telemetry-port={telemetry}"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        scrape = Scrape(port, folder / "log")
        try:
            wait_for(scrape, process)
            yield scrape
        finally:
            process.terminate()
            process.wait(20)
    assert "error" not in (folder / "log").read_text().casefold()


def wait_for(scrape: Scrape, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 120
    while True:
        try:
            scrape()
        except OSError:
            assert process.poll() is None, scrape.log.read_text()
            assert time.monotonic() < end, scrape.log.read_text()
            time.sleep(0.3)
        else:
            return


@pytest.mark.program("kube-state-metrics", "2.15.0", "all kinds: the metrics have the values of the statuses")
def test_each_series_of_each_kind_has_the_values_of_the_objects(
    cluster: Cluster, loop: Loop, scrape: Scrape
) -> None:
    # given workloads in their desired state
    for example in (
        "cloneset.yaml",
        "statefulset.yaml",
        "daemonset.yaml",
        "sidecarset.yaml",
        "broadcastjob.yaml",
    ):
        cluster.kubectl("apply", "-f", str(EXAMPLES / example))
    loop.run(
        cluster.until(lambda: cluster.get("clonesets", "web")["status"]["readyReplicas"] > 0, what="pods")
    )
    loop.run(cluster.until(lambda: 'condition="Ready"' in scrape(), what="conditions are scraped"))
    status = cluster.get("clonesets", "web")["status"]

    def values() -> dict[str, float]:
        lines = re.findall(
            r'^(kruise_cloneset_\w+)\{[^}]*cloneset="web"[^}]*\} (\S+)$', scrape(), re.MULTILINE
        )
        return {name: float(value) for name, value in lines}

    # when
    loop.run(
        cluster.until(
            lambda: values().get("kruise_cloneset_status_replicas_ready") == status["readyReplicas"],
            what="values",
        )
    )
    # then
    result = values()
    assert result["kruise_cloneset_spec_replicas"] == status["replicas"]
    assert result["kruise_cloneset_status_replicas_updated"] == status["updatedReplicas"]
    assert result["kruise_cloneset_status_condition"] in (0, 1)
    wanted = {
        f"{resource['metricNamePrefix']}_{metric['name']}"
        for resource in build_custom_resource_state()["spec"]["resources"]
        for metric in resource["metrics"]
    }
    # then every series of every kind was read, also if there are no objects
    log = scrape.log.read_text()
    taken = {
        name for line in re.findall(r"familyNames=\[([^\]]*)\]", log) for name in re.findall(r'"(\w+)"', line)
    }
    assert wanted <= taken
