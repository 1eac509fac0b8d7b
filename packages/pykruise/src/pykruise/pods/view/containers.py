"""Containers of a pod and their kubelet status: the facts that an in-place update needs.

JSON ──▶ RawContainer / RawStatus (msgspec) ──▶ read_container_facts() / read_status_facts() ──▶ small shared values
JSON ──▶ ContainerText ──▶ FactsTable ──▶ the same values, for many pods of one template

Pure, except for the table, which is bounded. A projection of pods decodes the raw forms and keeps the facts. The
facts are equal for all pods of a template, so pods can share them. Quantities are kept for cpu and memory only,
because a running pod cannot change others.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pykruise.agent.rules.environment import EnvSource, parse_env_sources
from pykruise.kube.cache.remembering import Recent, register_limit
from pykruise.pods.lifecycle.launch_order import BARRIER_VARIABLE, priority_of_key

_JOB_PREFIX: Final = "KRUISE_TERMINATE_SIDECAR_"
IMAGE_FAILURES: Final = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
"""Waiting reasons of a container whose image the kubelet does not have."""

END_VARIABLE: Final = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"
END_IMAGE_VARIABLE: Final = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE"
IGNORE_END_VARIABLE: Final = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"


class Amounts(msgspec.Struct, frozen=True, gc=False):
    """Quantities as written in the object; None if the resource is not given."""

    cpu: str | None = None
    memory: str | None = None

    def get(self, name: str) -> str | None:
        """The quantity of `cpu` or `memory`; None for other names."""
        match name:
            case "cpu":
                return self.cpu
            case "memory":
                return self.memory
        return None


NO_AMOUNTS: Final = Amounts()


class Resources(msgspec.Struct, frozen=True, gc=False):
    """`limits` and `requests`."""

    limits: Amounts = NO_AMOUNTS
    requests: Amounts = NO_AMOUNTS

    def get(self, bound: str, name: str) -> str | None:
        """The quantity in `limits` or `requests` for a resource; None when it is not given."""
        return (self.limits if bound == "limits" else self.requests).get(name)


NO_RESOURCES: Final = Resources()


class EndsWithJob(msgspec.Struct, frozen=True, gc=False):
    """Way to end a container after the other containers of its run-to-completion pod have ended."""

    is_killed: bool = False
    is_ignored: bool = False
    """Whether the container's exit code is ignored."""
    image: str = ""
    """Image that ends the container on a virtual node."""


class ContainerFacts(msgspec.Struct, frozen=True, gc=False):
    """A regular container of a pod's spec."""

    name: str = ""
    image: str = ""
    launch_priority: int | None = None
    """Priority from the barrier variable; None if the container takes no part in ordered starts."""
    env_sources: tuple[EnvSource, ...] = ()
    """Labels and annotations that environment variables read, sorted by variable."""
    resources: Resources = NO_RESOURCES
    restarts_for: tuple[str, ...] = ()
    """Resources (`cpu`, `memory`) whose resize restarts the container."""
    ends_with_job: EndsWithJob | None = None
    """Way to end a sidecar after the job's containers; None if the container is not such a sidecar."""
    named_ports: tuple[tuple[str, int], ...] = ()
    """Container ports with a name."""
    probes_after_s: int = 0
    """Seconds between the start of the container and its first startup or readiness probe, whichever begins later."""


class ContainerStatusFacts(msgspec.Struct, frozen=True, gc=False):
    """Last status of a regular container, reported by the kubelet."""

    name: str = ""
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    restart_count: int = 0
    ready: bool = False
    waiting: str = ""
    """Reason why the container is waiting (`ImagePullBackOff`); empty if it does not wait."""
    resources: Resources | None = None
    """Actual resources; None if the kubelet does not report them."""
    exit_code: int | None = None
    """Exit code of a terminated container; None if the container has not terminated."""
    lacks: str = ""
    """Message about an object that the kubelet misses for the container: a ConfigMap, a Secret, or a key in one."""
    last_exit_code: int | None = None
    """Exit code of the run before the present one; None if there is no such run, or the kubelet does not report it."""


class _KeyRef(msgspec.Struct, frozen=True, gc=False):
    key: str | None = None


class _FieldRef(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    field_path: str | None = None


class _ValueFrom(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    field_ref: _FieldRef | None = None
    config_map_key_ref: _KeyRef | None = None


class _Env(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    value: str | None = None
    value_from: _ValueFrom | None = None


class _ResizePolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_name: str = ""
    restart_policy: str = ""


class RawResources(msgspec.Struct, frozen=True, gc=False):
    limits: Amounts | None = None
    requests: Amounts | None = None


class RawPort(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port of a container, as written in the pod."""

    name: str | None = None
    container_port: int = 0


class _Probe(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    initial_delay_seconds: int | None = None


class RawContainer(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A regular container decoded from a pod's `spec.containers`; hashable."""

    name: str = ""
    image: str | None = None
    env: tuple[_Env, ...] | None = None
    resources: RawResources | None = None
    resize_policy: tuple[_ResizePolicy, ...] | None = None
    ports: tuple[RawPort, ...] | None = None
    readiness_probe: _Probe | None = None
    startup_probe: _Probe | None = None


_NULL: Final = msgspec.Raw(b"null")


class ContainerText(msgspec.Struct, gc=False, rename="camel"):
    """A container whose larger parts stay undecoded text; see `FactsTable`."""

    name: str = ""
    image: str | None = None
    env: msgspec.Raw = _NULL
    resources: msgspec.Raw = _NULL
    resize_policy: msgspec.Raw = _NULL
    ports: msgspec.Raw = _NULL
    readiness_probe: msgspec.Raw = _NULL
    startup_probe: msgspec.Raw = _NULL


LONGEST_TEXT: Final = 4_096
FACTS: Final = register_limit("facts of containers", entries=1_000, bytes_each=4 * LONGEST_TEXT)


class FactsTable:
    """Cache of container facts by text: the pods of a template have equal texts, so each text is decoded only once.

    Keeps up to `limit` texts, none longer than LONGEST_TEXT, and forgets texts that no pod has any more.
    """

    def __init__(self, *, limit: int = FACTS) -> None:
        self._facts: Recent[tuple[str, str | None, bytes], ContainerFacts | None] = Recent(entries=limit)

    def __call__(self, text: ContainerText) -> ContainerFacts:
        """Return the facts. Raises msgspec.DecodeError when the text is not a container."""
        probes = (text.readiness_probe, text.startup_probe)
        rest = b"\n".join((text.env, text.resources, text.resize_policy, text.ports, *probes))
        key = (text.name, text.image, rest)
        container = self._facts.get(key, None)
        if container is None:
            container = read_container_facts(
                RawContainer(
                    name=text.name,
                    image=text.image,
                    env=_decode_env(text.env),
                    resources=_decode_resources(text.resources),
                    resize_policy=_decode_resize_policy(text.resize_policy),
                    ports=_decode_ports(text.ports),
                    readiness_probe=_decode_probe(text.readiness_probe),
                    startup_probe=_decode_probe(text.startup_probe),
                )
            )
            if len(rest) <= LONGEST_TEXT:
                self._facts.put(key, container)
        return container


_decode_env = msgspec.json.Decoder(tuple[_Env, ...] | None).decode
_decode_resources = msgspec.json.Decoder(RawResources | None).decode
_decode_resize_policy = msgspec.json.Decoder(tuple[_ResizePolicy, ...] | None).decode
_decode_probe = msgspec.json.Decoder(_Probe | None).decode
_decode_ports = msgspec.json.Decoder(tuple[RawPort, ...] | None).decode


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    reason: str | None = None
    message: str | None = None


NOT_CONFIGURED: Final = "CreateContainerConfigError"
"""Waiting reason whose message is kept. Messages of other reasons change all the time."""


class _Terminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    exit_code: int = 0


class _State(msgspec.Struct, frozen=True, gc=False):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class RawStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A decoded entry of `status.containerStatuses`; hashable."""

    name: str | None = None
    image: str | None = None
    image_id: str | None = msgspec.field(name="imageID", default=None)
    container_id: str | None = msgspec.field(name="containerID", default=None)
    restart_count: int = 0
    ready: bool = False
    state: _State | None = None
    last_state: _State | None = None
    resources: RawResources | None = None

    @property
    def last_exit_code(self) -> int | None:
        """Exit code of the run before the present one; None if the exit code is not reported."""
        ended = self.last_state.terminated if self.last_state is not None else None
        return ended.exit_code if ended is not None else None


def list_named_ports(ports: Iterable[RawPort] | None) -> tuple[tuple[str, int], ...]:
    """Return the names and numbers of the ports that have a name."""
    return tuple((port.name, port.container_port) for port in ports or () if port.name)


def read_container_facts(raw: RawContainer) -> ContainerFacts:
    """Extract the facts of a container."""
    return ContainerFacts(
        name=raw.name,
        image=raw.image or "",
        launch_priority=_find_launch_priority(raw.env or ()),
        env_sources=parse_env_sources(_list_field_paths(raw.env or ())),
        resources=resources_of(raw.resources),
        restarts_for=tuple(
            policy.resource_name
            for policy in raw.resize_policy or ()
            if policy.restart_policy == "RestartContainer"
        ),
        ends_with_job=_parse_end_settings(raw.env or ()),
        named_ports=list_named_ports(raw.ports),
        probes_after_s=max(
            (probe.initial_delay_seconds or 0)
            for probe in (raw.readiness_probe or _NO_PROBE, raw.startup_probe or _NO_PROBE)
        ),
    )


_NO_PROBE: Final = _Probe()


def read_status_facts(raw: RawStatus) -> ContainerStatusFacts:
    """Extract the facts of a container's status."""
    waiting = raw.state.waiting if raw.state else None
    terminated = raw.state.terminated if raw.state else None
    return ContainerStatusFacts(
        name=raw.name or "",
        image=raw.image or "",
        image_id=raw.image_id or "",
        container_id=raw.container_id or "",
        restart_count=raw.restart_count,
        ready=raw.ready,
        waiting=(waiting.reason or "") if waiting else "",
        resources=resources_of(raw.resources) if raw.resources is not None else None,
        exit_code=terminated.exit_code if terminated else None,
        lacks=(waiting.message or "") if waiting and waiting.reason == NOT_CONFIGURED else "",
        last_exit_code=raw.last_exit_code,
    )


def env_sources_of(container: Mapping[str, Any]) -> tuple[EnvSource, ...]:
    """Metadata sources of a template's container, sorted by variable.

    Empty when an entry is not a valid environment variable.
    """
    entries = container.get("env")
    try:
        env = msgspec.convert(entries or [], tuple[_Env, ...])
    except msgspec.ValidationError:
        return ()
    return parse_env_sources(_list_field_paths(env))


def _list_field_paths(env: Iterable[_Env]) -> Iterable[tuple[str, str]]:
    for entry in env:
        reference = entry.value_from.field_ref if entry.value_from and not entry.value else None
        if reference is not None:
            yield entry.name, reference.field_path or ""


def _find_launch_priority(env: Iterable[_Env]) -> int | None:
    for entry in env:
        if entry.name == BARRIER_VARIABLE:
            reference = entry.value_from.config_map_key_ref if entry.value_from else None
            return priority_of_key(reference.key or "") if reference else None
    return None


def _parse_end_settings(env: Iterable[_Env]) -> EndsWithJob | None:
    """Read the settings from literal values only; other values are ignored."""
    said = {entry.name: entry.value for entry in env if entry.name.startswith(_JOB_PREFIX) and entry.value}
    is_killed = said.get(END_VARIABLE, "").lower() == "true"
    image = said.get(END_IMAGE_VARIABLE, "")
    if not is_killed and not image:
        return None
    is_ignored = said.get(IGNORE_END_VARIABLE, "").lower() == "true"
    return EndsWithJob(is_killed, is_ignored, image)


def resources_of(raw: RawResources | None) -> Resources:
    """Quantities of cpu and memory."""
    if raw is None or (raw.limits is None and raw.requests is None):
        return NO_RESOURCES
    return Resources(raw.limits or NO_AMOUNTS, raw.requests or NO_AMOUNTS)
