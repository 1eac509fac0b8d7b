"""Content of ConfigMaps and Secrets. It is a part of the revision of a workload with the option roll-on-config.

view of a workload + Read ──▶ follow_config() ──▶ FollowedConfig: the view whose template records the content
change of a ConfigMap or Secret ──▶ list_config_wakes() ──▶ the workloads that follow this object

Caches contain only the metadata of these objects. If the resourceVersion of an object is new, the object is read, and
only its digest is kept in memory. Without the gate, no ConfigMaps and Secrets are watched. Without the option, none are
read, and the view is returned unchanged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from pykruise.kube.cache.store import Change
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ForbiddenError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, Right, make_right
from pykruise.kube.resources import CONFIG_MAPS, SECRETS, Resource
from pykruise.plans.views import CONFIG_MAP_VIEWS, REVISION_VIEWS, SECRET_VIEWS
from pykruise.pods.settings import Gate
from pykruise.pods.template.config_content import (
    MOST_OBJECTS,
    ConfigUse,
    digest_content,
    list_config_uses,
    make_annotations,
    read_recorded,
    record_content,
    select_uses,
)
from pykruise.pods.view.secrets import CopyView
from pykruise.pods.workload.options import ROLL_ON_CONFIG
from pykruise.pods.workload.revisions import make_candidate
from pykruise.pods.workload.views import WorkloadView
from pykruise.runtime.plan import Note
from pykruise.runtime.read import Around, Read
from pykruise.runtime.views import Views
from pykruise.runtime.wakes import Wake

GATE: Final = "RollOnConfig"

GATES: Final[Mapping[str, Gate]] = {
    GATE: Gate(
        False,
        "alpha",
        "workloads with the annotation pykruise.io/roll-on-config get a new revision when the ConfigMaps or Secrets "
        "of their template change",
    )
}
"""Feature gates of the kinds that follow the content. OpenKruise does not have them."""

FOLLOWED: Final[Mapping[str, tuple[Resource, Views[CopyView]]]] = {
    CONFIG_MAPS.kind: (CONFIG_MAPS, CONFIG_MAP_VIEWS),
    SECRETS.kind: (SECRETS, SECRET_VIEWS),
}

FOLLOWED_VIEWS: Final = (CONFIG_MAP_VIEWS, SECRET_VIEWS)

CONFIG_MISSING: Final = "ConfigMissing"
"""Reason of the event about a ConfigMap or Secret that does not exist or cannot be read."""

AGAIN_AFTER_S: Final = 600.0


def list_follow_rights(kind: str) -> Mapping[str, tuple[Right, ...]]:
    """Return the further permissions that the controller of a kind needs if the gate is on."""
    why = f"{kind}: to follow the content of ConfigMaps and Secrets (gate {GATE})"
    return {GATE: tuple(make_right(resource, *READ, why=why) for resource in (CONFIG_MAPS, SECRETS))}


V = TypeVar("V", bound=WorkloadView)


class FollowSettings(Protocol):
    """Settings of a kind whose workloads can follow the content."""

    @property
    def roll_on_config(self) -> bool: ...


class FollowedConfig(msgspec.Struct, Generic[V], frozen=True):
    """A workload whose template records the content of its ConfigMaps and Secrets."""

    view: V
    problem: str = ""
    """Reason why the previous record is kept; empty if the current content was read."""


def make_config_notes(problem: str) -> tuple[Note, ...]:
    """Return the event about a problem with ConfigMaps or Secrets; no event if there is no problem."""
    if not problem:
        return ()
    return (Note(reason=CONFIG_MISSING, message=problem, warning=True, again_after_s=AGAIN_AFTER_S),)


class _ConfigMemory(msgspec.Struct):
    """Digests that were computed for one workload, and the last template that records them."""

    digests: dict[tuple[str, str], tuple[str, int, str]] = {}
    """Kind and name → UID, version and digest."""
    given: Any = None
    annotations: dict[str, str] = {}
    result: tuple[Any, Any] | None = None
    """The spec `given` with these annotations in its template, and the candidate for a revision of this spec."""


def list_followed(view: Any) -> Sequence[ConfigUse]:
    """Return the ConfigMaps and Secrets that the workload of this view follows."""
    text = view.annotations.get(ROLL_ON_CONFIG.annotation)
    if text is None or view.spec is None:
        return ()
    try:
        wanted = ROLL_ON_CONFIG.parse(text)
    except ValueError:
        return ()  # find_option_errors() reports this error
    return select_uses(list_config_uses(view.spec.template), wanted)[:MOST_OBJECTS]


async def follow_config(view: V, read: Read[Any]) -> FollowedConfig[V]:
    """Return the workload, with the content that it follows recorded in its template.

    If an object cannot be read, or does not exist although it is not optional, the record of the last revision is kept.
    So a deletion by mistake does not start a rollout.
    """
    uses = list_followed(view) if read.settings.roll_on_config else ()
    if not uses:
        return FollowedConfig(view)
    memory = read.find_memory(_ConfigMemory)
    problems: list[str] = []
    digests: dict[tuple[str, str], str] = {}
    for use in uses:
        digest, problem = await _read_digest(use, view.namespace, read, memory)
        if digest:
            digests[use.kind, use.name] = digest
        elif problem and not (use.is_optional and problem == _MISSING):
            problems.append(f"{use.kind} {use.name} {problem}")
    memory.digests = {key: memory.digests[key] for key in digests}
    if problems:
        own = read.list_owned(REVISION_VIEWS, view.uid)
        latest = max(own, key=lambda revision: revision.number, default=None)
        annotations = read_recorded(latest.template) if latest is not None else {}
        text = f"{'; '.join(problems)}: changes of the content start no rollout until the manager can read it"
        return FollowedConfig(_with_record(view, annotations, memory), text)
    return FollowedConfig(_with_record(view, make_annotations(uses, digests), memory))


_MISSING: Final = "does not exist"


async def _read_digest(
    use: ConfigUse, namespace: str, read: Read[Any], memory: _ConfigMemory
) -> tuple[str, str]:
    """Return the digest of an object; or an empty digest and the problem."""
    resource, views = FOLLOWED[use.kind]
    try:
        stored = read.get(views, Key(namespace, use.name))
        if stored is None or stored.is_deleting:
            return "", _MISSING
        known = memory.digests.get((use.kind, use.name))
        if known is not None and known[:2] == (stored.uid, stored.resource_version):
            return known[2], ""
        document = decode(await read.live.get(resource, namespace, use.name))
    except NotFoundError:
        return "", _MISSING
    except ForbiddenError:
        return "", "cannot be read (no permission)"
    metadata: Document = document["metadata"]
    digest = digest_content(use.kind, document)
    version = int(metadata.get("resourceVersion") or 0)
    memory.digests[use.kind, use.name] = (str(metadata.get("uid", "")), version, digest)
    return digest, ""


def _with_record(view: V, annotations: dict[str, str], memory: _ConfigMemory) -> V:
    """Return the workload with these annotations in its template. If nothing changes, return the same Python
    objects.
    """
    spec: Any = view.spec  # type: ignore[attr-defined]
    if memory.result is None or memory.given is not spec or memory.annotations != annotations:
        template = record_content(spec.template, annotations)
        memory.given, memory.annotations = spec, annotations
        memory.result = (msgspec.structs.replace(spec, template=template), make_candidate(template))
    result_spec, candidate = memory.result
    result: V = msgspec.structs.replace(view, spec=result_spec, candidate=candidate)
    return result


# Wakes

BY_CONFIG: Final = "config"
"""Index of workloads by kind, namespace and name of each ConfigMap and Secret that they follow."""


def index_by_config(view: Any) -> Iterable[tuple[str, str, str]]:
    """Return the entries of a workload in the index BY_CONFIG."""
    return [(use.kind, view.namespace, use.name) for use in list_followed(view)]


def list_config_wakes(objects: Views[Any], settings: FollowSettings) -> Sequence[Wake]:
    """Return the wakes of a kind: a change of a ConfigMap or Secret enqueues the workloads that follow this object."""
    if not settings.roll_on_config:
        return ()
    return [Wake(on=views, keys=_enqueue_followers(kind, objects)) for kind, (_, views) in FOLLOWED.items()]


def _enqueue_followers(
    kind: str, objects: Views[Any]
) -> Callable[[Change[CopyView], Around[Any]], Iterable[Key]]:
    def keys(change: Change[CopyView], around: Around[Any]) -> Iterable[Key]:
        old, new = change.old, change.new
        if old is not None and new is not None and old.resource_version == new.resource_version:
            return ()
        followed = (kind, change.key.namespace, change.key.name)
        return [view.key for view in around.list_by_index(objects, BY_CONFIG, followed)]

    return keys


def list_config_reads(settings: FollowSettings) -> Sequence[Views[Any]]:
    """Return the views that a kind reads for this option; none if the gate is off."""
    return FOLLOWED_VIEWS if settings.roll_on_config else ()
