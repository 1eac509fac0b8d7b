"""Kinds that explain, plan and simulate know: all that have a definition and a controller.

what a person typed ──▶ parse_target()      a manifest ──▶ find_kind_of_document()      ──▶ Kind (plans/kind.py)

A command loads only the kind that a name selects. It loads all kinds to resolve a short name (`asts/web`), or to list
the kinds.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.cli.errors import CommandError
from pykruise.kinds import crds_of, find, list_conversions, list_kinds
from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import DAEMON_SETS, STATEFUL_SETS
from pykruise.kube.schemas.conversion import ConversionError, convert
from pykruise.kube.values.near_misses import format_hint
from pykruise.plans.insight import ClockInsight, Insight, JobInsight, WorkloadInsight
from pykruise.plans.kind import Kind
from pykruise.pods.corrections import IN_TEMPLATE, OF_A_JOB, OF_THE_WORKLOAD, Correction


def list_known_kinds() -> Sequence[Kind]:
    """Kinds that can be explained and planned."""
    return tuple(kind for kind in list_kinds() if _is_known(kind))


def _is_known(kind: Kind) -> bool:
    return bool(kind.versions) and kind.control is not None


def _list_likely_kinds(name: str) -> Iterator[Kind]:
    """Yield the known kind with this singular or plural name; then all known kinds."""
    for folder in (name, name.removesuffix("s")):
        kind = find(folder)
        if kind is not None and _is_known(kind):
            yield kind
    yield from list_known_kinds()


def list_workloads() -> Sequence[Kind]:
    """Kinds that own pods, whose rollouts and runs can be simulated."""
    return tuple(
        kind for kind in list_known_kinds() if isinstance(kind.insight, WorkloadInsight | JobInsight)
    )


def list_clocks() -> Sequence[Kind]:
    """Kinds that create objects on a schedule."""
    return tuple(kind for kind in list_known_kinds() if isinstance(kind.insight, ClockInsight))


def insight_of(kind: Kind) -> Insight:
    """Return the insight of the kind; an insight without declarations if the kind has none."""
    return kind.insight or Insight(containers=())


def find_workload_insight(kind: Kind) -> WorkloadInsight:
    """Return the insight of a kind that owns pods."""
    assert isinstance(kind.insight, WorkloadInsight), f"{kind.resource.kind} owns no pods"
    return kind.insight


def correction_of(kind: Kind, document: Mapping[str, Any]) -> Correction:
    """Return where a user corrects the template of the pods of an object."""
    if isinstance(kind.insight, JobInsight):
        if get_path(document, "status", "completionTime"):
            return Correction(again=f"{kind.resource.kind} {document['metadata']['name']}")
        return OF_A_JOB
    return IN_TEMPLATE if isinstance(kind.insight, WorkloadInsight) else OF_THE_WORKLOAD


def is_per_node(kind: Kind) -> bool:
    """Whether the kind creates one pod per node, so that all nodes must be read."""
    return kind.shown is not None and kind.shown.is_per_node


def parse_target(target: str) -> tuple[Kind, str]:
    """Return kind and name of `clonesets/web`. Raises CommandError for an unknown kind or another form."""
    said, slash, name = target.partition("/")
    if not slash or not name or "/" in name:
        raise CommandError(f"{target!r}: write kind and name, such as clonesets/web")
    return find_kind(said), name


def find_kind(word: str) -> Kind:
    """Return the kind that a word names: `clonesets`, `CloneSet`, `clone`, `clonesets.apps.kruise.io`. Raises
    CommandError.
    """
    said = word.lower()
    for kind in _list_likely_kinds(said.partition(".")[0]):
        if said in _list_names(kind):
            return kind
    plurals = [item.resource.plural for item in list_known_kinds()]
    others = f"; known kinds: {', '.join(plurals)}"
    raise CommandError(f"{word!r} is not a known kind{format_hint(said, plurals, otherwise=others)}")


def _list_names(kind: Kind) -> set[str]:
    plural, singular, group = kind.resource.plural, kind.resource.kind.lower(), kind.resource.group
    return {
        plural,
        singular,
        f"{plural}.{group}",
        f"{singular}.{group}",
        *insight_of(kind).names,
        *kind.short_names,
    }


def find_kind_of_document(document: Mapping[str, Any]) -> Kind:
    """Return the kind of a manifest. Raises CommandError for an unknown kind."""
    for kind in _list_likely_kinds(str(document.get("kind")).lower()):
        if is_of(kind, document):
            return kind
    name = (document.get("metadata") or {}).get("name")
    what = f"{document.get('apiVersion')} {document.get('kind')} {name}"
    names = [item.resource.kind for item in list_known_kinds()]
    others = "; known kinds: " + ", ".join(
        f"{item.resource.kind} ({item.resource.group})" for item in list_known_kinds()
    )
    meant = format_hint(str(document.get("kind")), names, otherwise=others)
    raise CommandError(f"{what}: not a known kind{meant}")


def check_manifests(documents: Sequence[Mapping[str, Any]], *, source: str) -> None:
    """Check the versions of manifests. Raises CommandError, with the file and the nearest apiVersion, for a version
    that a kind does not have.

    Kubernetes' own kinds with the same name (StatefulSet, DaemonSet) are ignored.
    """
    for number, document in enumerate(documents, start=1):
        version = str(document.get("apiVersion"))
        if (version, document.get("kind")) in _OF_KUBERNETES:
            continue
        kinds_of_name = [kind for kind in list_known_kinds() if kind.resource.kind == document.get("kind")]
        served = [served for kind in kinds_of_name for served in list_api_versions(kind)]
        if served and version not in served:
            what = f"{document.get('kind')} {(document.get('metadata') or {}).get('name')}"
            others = f"; available: {', '.join(served)}"
            raise CommandError(
                f"{source}, document {number}: {what}: there is no apiVersion {version}"
                f"{format_hint(version, served, otherwise=others)}"
            )


_OF_KUBERNETES: Final = frozenset((item.api_version, item.kind) for item in (STATEFUL_SETS, DAEMON_SETS))


def list_api_versions(kind: Kind) -> tuple[str, ...]:
    """Return the apiVersions that the kind's definition serves; the version that plans use is the first."""
    planned = kind.resource.version
    names = [
        version["name"]
        for crd in crds_of([kind.resource], described=False)
        for version in crd["spec"]["versions"]
        if version["served"]
    ]
    return tuple(f"{kind.resource.group}/{name}" for name in sorted(names, key=lambda name: name != planned))


def convert_to_hub(document: Mapping[str, Any]) -> Document:
    """Return a manifest in the version that plans use. Raises CommandError when it cannot be converted."""
    kind = find_kind_of_document(document)
    if document.get("apiVersion") == kind.resource.api_version:
        return dict(document)
    if kind.conversion is None:
        return {**document, "apiVersion": kind.resource.api_version}
    try:
        return convert(document, kind.resource.api_version, list_conversions())
    except ConversionError as error:
        raise CommandError(f"{document['kind']} {document['metadata'].get('name')}: {error}") from error


def strip_document(document: Mapping[str, Any]) -> Document:
    """Return a manifest without the fields that a cluster adds: status, and metadata that users do not write."""
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {name: value for name, value in document["metadata"].items() if name in kept}
    return {**{name: value for name, value in document.items() if name != "status"}, "metadata": metadata}


def is_of(kind: Kind, document: Mapping[str, Any]) -> bool:
    """Whether the document is an object of this kind."""
    group = str(document.get("apiVersion") or "").rpartition("/")[0]
    return document.get("kind") == kind.resource.kind and group == kind.resource.group
