"""Containers of a pod and what the kubelet says of them, as far as an update in place needs to know.

JSON ──▶ RawContainer / RawStatus (msgspec) ──▶ container_facts() / status_facts() ──▶ small shared values
JSON ──▶ ContainerText ──▶ FactsTable ──▶ the same, where many pods of one template are read

Pure; only the table keeps anything, and never more than it says. The raw forms are what a projection
of pods decodes; the facts are what it keeps: equal for all pods of a template, so they can be shared. Amounts
are kept for cpu and memory only: nothing else can be changed in a running pod.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pykruise.agent.rules.environment import EnvSource, env_sources
from pykruise.kube.cache.remembering import remembers
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
"""Reasons with which the kubelet reports that it has no image for a container."""

END_VARIABLE: Final = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"
END_IMAGE_VARIABLE: Final = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE"
IGNORE_END_VARIABLE: Final = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"


class Amounts(msgspec.Struct, frozen=True, gc=False):
    """Quantities as they stand in the document; None means that the resource is not named."""

    cpu: str | None = None
    memory: str | None = None

    def get(self, name: str) -> str | None:
        """The amount of `cpu` or `memory`; None for anything else."""
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
        """The amount of `limits` or `requests` for a resource; None when it is not named."""
        return (self.limits if bound == "limits" else self.requests).get(name)


NO_RESOURCES: Final = Resources()


class EndsWithJob(msgspec.Struct, frozen=True, gc=False):
    """How a container is ended once the others of its run-to-completion pod are done."""

    is_killed: bool = False
    is_ignored: bool = False
    """Whether how it ends does not count."""
    image: str = ""
    """The image that ends it on a virtual node."""


class ContainerFacts(msgspec.Struct, frozen=True, gc=False):
    """A regular container of a pod's spec."""

    name: str = ""
    image: str = ""
    launch_priority: int | None = None
    """From its barrier variable; None: it does not take part in ordered starts."""
    env_sources: tuple[EnvSource, ...] = ()
    """Sorted by variable."""
    resources: Resources = NO_RESOURCES
    restarts_for: tuple[str, ...] = ()
    """Resources (`cpu`, `memory`) whose resize restarts the container."""
    ends_with_job: EndsWithJob | None = None
    """None: it is no sidecar of a job."""
    named_ports: tuple[tuple[str, int], ...] = ()
    """Its ports that have a name."""


class ContainerStatusFacts(msgspec.Struct, frozen=True, gc=False):
    """Last status of a regular container, reported by the kubelet."""

    name: str = ""
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    restart_count: int = 0
    ready: bool = False
    waiting: str = ""
    """Why it does not run (`ImagePullBackOff`); empty when it does, or did."""
    resources: Resources | None = None
    """As in force; None: the kubelet does not say."""
    exit_code: int | None = None
    """Exit code of a container that has ended; None: it has not."""
    lacks: str = ""
    """Missing object without which the kubelet cannot create the container: a ConfigMap, a Secret, or a key of one."""


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


class _Port(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str | None = None
    container_port: int = 0


class RawContainer(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A regular container as it is decoded from a pod's `spec.containers`; hashable."""

    name: str = ""
    image: str | None = None
    env: tuple[_Env, ...] | None = None
    resources: RawResources | None = None
    resize_policy: tuple[_ResizePolicy, ...] | None = None
    ports: tuple[_Port, ...] | None = None


_NULL: Final = msgspec.Raw(b"null")


class ContainerText(msgspec.Struct, gc=False, rename="camel"):
    """A container whose larger parts are left as text; see `FactsTable`."""

    name: str = ""
    image: str | None = None
    env: msgspec.Raw = _NULL
    resources: msgspec.Raw = _NULL
    resize_policy: msgspec.Raw = _NULL
    ports: msgspec.Raw = _NULL


LONGEST_TEXT: Final = 4_096
FACTS: Final = remembers("facts of containers", entries=1_000, bytes_each=4 * LONGEST_TEXT)


class FactsTable:
    """The facts of containers by their text: equal for the pods of a template, so read only once.

    Remembers up to `limit` texts, none longer than LONGEST_TEXT, and then starts afresh.
    """

    def __init__(self, *, limit: int = FACTS) -> None:
        self._facts: dict[tuple[str, str | None, bytes], ContainerFacts] = {}
        self._limit = limit

    def __call__(self, text: ContainerText) -> ContainerFacts:
        """The facts. Raises msgspec.DecodeError for what is no container."""
        rest = b"\n".join((text.env, text.resources, text.resize_policy, text.ports))
        key = (text.name, text.image, rest)
        container = self._facts.get(key)
        if container is None:
            if len(self._facts) >= self._limit:
                self._facts = {}
            container = container_facts(
                RawContainer(
                    name=text.name,
                    image=text.image,
                    env=_decode_env(text.env),
                    resources=_decode_resources(text.resources),
                    resize_policy=_decode_resize_policy(text.resize_policy),
                    ports=_decode_ports(text.ports),
                )
            )
            if len(rest) <= LONGEST_TEXT:
                self._facts[key] = container
        return container


_decode_env = msgspec.json.Decoder(tuple[_Env, ...] | None).decode
_decode_resources = msgspec.json.Decoder(RawResources | None).decode
_decode_resize_policy = msgspec.json.Decoder(tuple[_ResizePolicy, ...] | None).decode
_decode_ports = msgspec.json.Decoder(tuple[_Port, ...] | None).decode


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    reason: str | None = None
    message: str | None = None


_NOT_CONFIGURED: Final = "CreateContainerConfigError"
"""The messages of other reasons change all the time, and are not kept."""


class _Terminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    exit_code: int = 0


class _State(msgspec.Struct, frozen=True, gc=False):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class RawStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An entry of `status.containerStatuses` as it is decoded; hashable."""

    name: str | None = None
    image: str | None = None
    image_id: str | None = msgspec.field(name="imageID", default=None)
    container_id: str | None = msgspec.field(name="containerID", default=None)
    restart_count: int = 0
    ready: bool = False
    state: _State | None = None
    resources: RawResources | None = None


def container_facts(raw: RawContainer) -> ContainerFacts:
    """Kept facts of a container."""
    return ContainerFacts(
        name=raw.name,
        image=raw.image or "",
        launch_priority=_launch_priority(raw.env or ()),
        env_sources=env_sources(_field_paths(raw.env or ())),
        resources=resources_of(raw.resources),
        restarts_for=tuple(
            policy.resource_name
            for policy in raw.resize_policy or ()
            if policy.restart_policy == "RestartContainer"
        ),
        ends_with_job=_ends_with_job(raw.env or ()),
        named_ports=tuple((port.name, port.container_port) for port in raw.ports or () if port.name),
    )


def status_facts(raw: RawStatus) -> ContainerStatusFacts:
    """Kept facts of a container's status."""
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
        lacks=(waiting.message or "") if waiting and waiting.reason == _NOT_CONFIGURED else "",
    )


def env_sources_of(container: Mapping[str, Any]) -> tuple[EnvSource, ...]:
    """The sources of a container as it stands in a template, sorted by variable.

    Entries that are not shaped like environment variables have none.
    """
    entries = container.get("env")
    try:
        env = msgspec.convert(entries or [], tuple[_Env, ...])
    except msgspec.ValidationError:
        return ()
    return env_sources(_field_paths(env))


def _field_paths(env: Iterable[_Env]) -> Iterable[tuple[str, str]]:
    for entry in env:
        reference = entry.value_from.field_ref if entry.value_from and not entry.value else None
        if reference is not None:
            yield entry.name, reference.field_path or ""


def _launch_priority(env: Iterable[_Env]) -> int | None:
    for entry in env:
        if entry.name == BARRIER_VARIABLE:
            reference = entry.value_from.config_map_key_ref if entry.value_from else None
            return priority_of_key(reference.key or "") if reference else None
    return None


def _ends_with_job(env: Iterable[_Env]) -> EndsWithJob | None:
    """Literal values only; a value that comes from elsewhere says nothing."""
    said = {entry.name: entry.value for entry in env if entry.name.startswith(_JOB_PREFIX) and entry.value}
    is_killed = said.get(END_VARIABLE, "").lower() == "true"
    image = said.get(END_IMAGE_VARIABLE, "")
    if not is_killed and not image:
        return None
    is_ignored = said.get(IGNORE_END_VARIABLE, "").lower() == "true"
    return EndsWithJob(is_killed, is_ignored, image)


def resources_of(raw: RawResources | None) -> Resources:
    """Amounts of cpu and memory."""
    if raw is None or (raw.limits is None and raw.requests is None):
        return NO_RESOURCES
    return Resources(raw.limits or NO_AMOUNTS, raw.requests or NO_AMOUNTS)
