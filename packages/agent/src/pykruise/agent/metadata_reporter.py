"""Reports the containers of pods of OpenKruise's workloads, and restarts containers with an outdated environment.

pods of this node (watched) ──▶ queue ──▶ _sync: containers at the runtime, `env` in them ──▶ PATCH pods/status
                                                 └── in-place update, other environment ──▶ queue ──▶ restart

agent/rules/container_metadata.py decides what is reported, and which containers must be restarted.
"""

import asyncio
import json
import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.agent.containers import PodRef, Stop, build_scheme_id, list_newest_containers, stop
from pykruise.agent.cri.errors import CriError
from pykruise.agent.cri.runtimes import Runtime, Runtimes
from pykruise.agent.cri.values import CONTAINER_HASH, CriContainer
from pykruise.agent.rules.container_metadata import (
    NodePod,
    Reported,
    list_stale_containers,
    needs_report,
    project_pod,
    report_patch,
)
from pykruise.agent.rules.environment import EnvSource, compute_environment_hash
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.client import Client
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.clock import Clock
from pykruise.kube.control.controller import Controller
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS

_log = logging.getLogger(__name__)

WORKERS: Final = 5
RESTART_WORKERS: Final = 10
PAGE_SIZE: Final = 50
"""Pods per page of a list. A pod can have 256 KiB of annotations."""
GATHER_S: Final = 1.0
"""Seconds to wait before a report, because several changes of a pod's status arrive within a short time."""
ENV_TIMEOUT_S: Final = 3.0
ENV_RETRY_S: Final = 3.0
MOST_ENV: Final = 1024 * 1024
"""Maximum number of bytes of an environment that is read, so that a command named `env` in a container cannot use all
memory of the agent. Kubernetes has the same limit for the data of a ConfigMap.
"""
RESTART_AFTER_S: Final = 3.0
"""Seconds to wait before a container with an outdated environment is stopped. If its image has changed too, the kubelet
stops it during this time, so that its preStop hook does not run twice.
"""
DEFAULT_GRACE_S: Final = 30

GRACE_LABELS: Final = (
    "io.kubernetes.pod.deletionGracePeriod",
    "io.kubernetes.pod.terminationGracePeriod",
)
PRE_STOP: Final = "io.kubernetes.container.preStopHandler"
PORTS: Final = "io.kubernetes.container.ports"
"""Annotation in which kubelets record the ports of a container."""

RestartKey = tuple[Key, str]
"""A pod, and one of its containers."""


class MetadataReporter:
    """Reports the containers of the pods of one node. `with_environment`: gate InPlaceUpdateEnvFromMetadata.

    It works from `run()` until `stop()`.
    """

    name = "metadata-reporter"

    def __init__(
        self,
        client: Client,
        runtimes: Runtimes,
        *,
        node: str,
        recorder: EventRecorder,
        clock: Clock,
        rng: random.Random,
        with_environment: bool = True,
    ) -> None:
        self._runtimes = runtimes
        self._recorder = recorder
        self._with_environment = with_environment
        self._began_at = int(clock())
        self.cache = Cache(
            client,
            PODS,
            project=project_pod,
            field_selector=f"spec.nodeName={node}",
            clock=clock,
            rng=rng,
            page_size=PAGE_SIZE,
        )
        self.cache.subscribe(self._on_change)
        self._writer = Writer(client, {PODS: self.cache})
        pods: WorkQueue[Key] = WorkQueue(cost_factor=0, base_delay_s=0.5, max_delay_s=50.0, rng=rng)
        self.controller = Controller(
            "metadata-reporter", self._sync, queue=pods, workers=WORKERS, clock=clock
        )
        stale: WorkQueue[RestartKey] = WorkQueue(cost_factor=0, base_delay_s=3.0, max_delay_s=600.0, rng=rng)
        self.restarts = Controller(
            "container-restarts", self._restart_container, queue=stale, workers=RESTART_WORKERS, clock=clock
        )

    async def run(self) -> None:
        """Report until `stop()`."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.controller.run())
            tasks.create_task(self.restarts.run())

    async def stop(self, *, grace_s: float) -> None:
        """Finish the work in progress within `grace_s`; then `run()` returns."""
        await asyncio.gather(self.controller.stop(grace_s=grace_s), self.restarts.stop(grace_s=grace_s))

    def _on_change(self, change: Change[NodePod]) -> None:
        old, new = change.old, change.new
        # To avoid many writes when the agent starts, older pods without a report are skipped.
        if new is None or (old is None and new.reported is None and new.created_at < self._began_at):
            return
        if needs_report(new, with_environment=self._with_environment):
            self.controller.queue.add_after(change.key, GATHER_S)

    # ── reports ──────────────────────────────────────────────────────────────

    async def _sync(self, key: Key) -> float | None:
        pod = self.cache.get(key)
        if pod is None or not needs_report(pod, with_environment=self._with_environment):
            return None
        reported: list[Reported] = []
        is_complete = True
        for runtime, ids in self._group_by_runtime(pod):
            containers = await list_newest_containers(runtime.client, _ref_of(pod))
            for name, container_id in ids.items():
                container = containers.get(name)
                if container is None or build_scheme_id(runtime, container) != container_id:
                    is_complete = False  # pod status and runtime differ: another change will follow
                    continue
                entry, is_whole = await self._build_entry(pod, runtime, container)
                is_complete &= is_whole
                reported.append(entry)
        reported.sort(key=lambda item: list(pod.container_ids).index(item.name))
        if reported and {item.name: item for item in reported} != (pod.reported or {}):
            body = report_patch(pod, reported)
            await self._writer.patch_status(PODS, key, body, uid=pod.uid, patch_type=PatchType.STRATEGIC)
        for name in list_stale_containers(pod, reported) if self._with_environment else ():
            self.restarts.queue.add_after((key, name), RESTART_AFTER_S)
        # The containers of an ended pod do not change any more, and the kubelet may have removed them.
        return None if is_complete or pod.is_ended else ENV_RETRY_S

    def _group_by_runtime(self, pod: NodePod) -> Sequence[tuple[Runtime, Mapping[str, str]]]:
        """Return the pod's started containers, grouped by their runtime."""
        result: dict[str, tuple[Runtime, dict[str, str]]] = {}
        for name, container_id in pod.container_ids.items():
            runtime = self._runtimes.find_runtime(container_id)
            if runtime is not None:
                result.setdefault(runtime.name, (runtime, {}))[1][name] = container_id
        return list(result.values())

    async def _build_entry(
        self, pod: NodePod, runtime: Runtime, container: CriContainer
    ) -> tuple[Reported, bool]:
        """Return the report about a container, and whether the report is complete."""
        container_id = build_scheme_id(runtime, container)
        known = (pod.reported or {}).get(container.name)
        if known is None or known.container_id != container_id:
            known = Reported(
                name=container.name,
                container_id=container_id,
                restart_count=container.restart_count,
                plain_hash=_parse_hexadecimal(container.annotations.get(CONTAINER_HASH, "")),
            )
        if not self._with_environment or known.env_hash or not container.is_running:
            return known, True
        sources = pod.sources.get(container.name, ())
        long_values = pod.long_values.get(container.name, {})
        values = await self._read_environment(runtime, container, sources, long_values)
        if values is None:
            return known, False
        env_hash = compute_environment_hash(sources, lambda source: values.get(source.variable, ""))
        return msgspec.structs.replace(known, env_hash=env_hash), True

    async def _read_environment(
        self,
        runtime: Runtime,
        container: CriContainer,
        sources: Sequence[EnvSource],
        long_values: Mapping[str, str],
    ) -> Mapping[str, str] | None:
        """Return the environment with which the container was started; None when it cannot be read now."""
        if not sources:
            return {}
        try:
            result = await runtime.client.exec_sync(
                container.id, ("env",), timeout_s=ENV_TIMEOUT_S, most_output=MOST_ENV
            )
        except CriError as error:
            _log.info(
                "the command `env` in container %s failed: %s; retry in %g s",
                container.name,
                error,
                ENV_RETRY_S,
            )
            return None
        if result.exit_code:
            _log.info(
                "the command `env` in container %s ended with exit code %d", container.name, result.exit_code
            )
            return None
        if len(result.stdout) >= MOST_ENV:  # the rest was cut, so a variable may be missing
            _log.warning(
                "the command `env` in container %s prints %d bytes or more", container.name, MOST_ENV
            )
            return None
        return parse_environment(result.stdout, long_values)

    # ── restarts ─────────────────────────────────────────────────────────────

    async def _restart_container(self, name: RestartKey) -> None:
        """Stop a container if its environment is still outdated. The kubelet restarts it with the new environment."""
        key, container_name = name
        pod = self.cache.get(key)
        if pod is None or pod.is_deleting or pod.reported is None:
            return
        entry = pod.reported.get(container_name)
        if entry is None or container_name not in list_stale_containers(pod, [entry]):
            return
        runtime = self._runtimes.find_runtime(entry.container_id)
        if runtime is None:
            return
        container = (await list_newest_containers(runtime.client, _ref_of(pod))).get(container_name)
        if (
            container is None
            or build_scheme_id(runtime, container) != entry.container_id
            or not container.is_running
        ):
            return
        _log.info("stopping container %s of pod %s: its environment has changed", container_name, key)
        await stop(
            runtime.client,
            container,
            _ref_of(pod),
            _stop_of(container),
            recorder=self._recorder,
        )


def parse_environment(text: bytes, long_values: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Parse the output of `env`, lines of the form `NAME=value`. A line without `=` continues the value above it.

    `long_values`: the wanted values that have line breaks, by variable. If the output contains such a value, its lines
    are not parsed, because a line with `=` inside the value does not begin another variable.
    """
    output = text.decode(errors="replace")
    whole_values = {name: f"{name}={value}\n" for name, value in (long_values or {}).items()}
    known: dict[str, str] = {}
    parsed: dict[str, list[str]] = {}
    last = ""
    position = 0
    while position < len(output):
        line = _read_line(output, position)
        name, equals, value = line.partition("=")
        whole = whole_values.get(name) if equals else None
        if whole and output.startswith(whole, position) and _is_end_of_value(output, position + len(whole)):
            known[name] = whole[len(name) + 1 : -1]
            position += len(whole)
            continue
        if equals:
            last, parsed[name] = name, [value]
        elif last:
            parsed[last].append(line)
        position += len(line) + 1
    return {name: "\n".join(lines) for name, lines in parsed.items()} | known


def _read_line(text: str, position: int) -> str:
    end = text.find("\n", position)
    return text[position:] if end < 0 else text[position:end]


def _is_end_of_value(text: str, position: int) -> bool:
    """Whether a value ends before this position: another variable or the end of the text follows."""
    return position == len(text) or "=" in _read_line(text, position)


def _stop_of(container: CriContainer) -> Stop:
    """Return the stop parameters that the kubelet recorded in the container's labels and annotations."""
    noted = {**container.labels, **container.annotations}
    graces = [int(noted[name]) for name in GRACE_LABELS if noted.get(name, "").isdecimal()]
    return Stop(
        grace_s=graces[0] if graces else DEFAULT_GRACE_S,
        pre_stop=_parse_json(noted.get(PRE_STOP)),
        ports=_parse_json(noted.get(PORTS)) or (),
        because="its environment has changed",
    )


def _parse_json(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def _ref_of(pod: NodePod) -> PodRef:
    return PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid, ip=pod.pod_ip)


def _parse_hexadecimal(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0
