"""Rules of a ResourceDistribution for every commit.

Commit ──▶ DistributionRules.on_commit() ──▶ Violations          at the end ──▶ at_rest() ──▶ Violations

The content of copies and their namespaces are computed here independently; rules.py describes how rules consider
what a manager could know.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kube.documents import Document
from pykruise.testing.simulation.history import Commit, Reconcile, list_versions_since
from simulation.pods import PodHistory
from simulation.rules import Violation

__all__ = ["DistributionRules"]

DISTRIBUTIONS, NAMESPACES = "resourcedistributions.apps.kruise.io", "namespaces"
SHELVES = {"Secret": "secrets", "ConfigMap": "configmaps"}
HASH = "kruise.io/resourcedistribution.resource.hashcode"
FROM = "kruise.io/resourcedistribution.resource.from"
NEVER = ("kube-system", "kube-public")
CONDITIONS = (
    *("GetResourceFailed", "CreateResourceFailed", "UpdateResourceFailed", "DeleteResourceFailed"),
    *("ConflictOccurred", "NamespaceNotExists"),
)


def content_of(kind: str, document: Document) -> Document:
    """Content of an object as an API server stores it."""
    data: Document = dict(document.get("data") or {})
    result: Document = {"data": data, "immutable": bool(document.get("immutable"))}
    if kind == "ConfigMap":
        binary = document.get("binaryData") or {}
        return result | {"binaryData": {name: text.replace("\n", "") for name, text in binary.items()}}
    for name, text in (document.get("stringData") or {}).items():
        data[name] = b64encode((text or "").encode()).decode()
    return result | {"type": document.get("type") or "Opaque"}


class Namespace(msgspec.Struct, frozen=True):
    """One namespace as it was from `revision` on. It is open while it exists and is not terminating."""

    revision: int
    is_there: bool
    is_open: bool
    labels: Mapping[str, str]


class Distribution(msgspec.Struct, frozen=True):
    """One version of the ResourceDistribution. `revision` is the API server's."""

    revision: int
    uid: str
    generation: int
    is_there: bool
    """False: it is deleted, or terminating."""
    resource: Document
    content: Document
    targets: Document
    status: Document

    @property
    def kind(self) -> str:
        """Kind of the copies."""
        return str(self.resource["kind"])

    def names(self, which: str) -> set[str]:
        """Names of the namespaces in this list: `includedNamespaces` or `excludedNamespaces`."""
        return {item["name"] for item in (self.targets.get(which) or {}).get("list") or ()} - {*NEVER}

    def may_be_target(self, name: str) -> bool:
        """Whether nothing but its labels can keep a namespace of that name from getting a copy."""
        return name not in NEVER and name not in self.names("excludedNamespaces")

    def is_target(self, name: str, namespace: Namespace | None) -> bool:
        """Whether this namespace should have a copy. None: it does not exist."""
        if not self.may_be_target(name):
            return False
        is_there = namespace is not None and namespace.is_there
        if self.targets.get("allNamespaces"):
            return is_there
        return name in self.names("includedNamespaces") or (
            namespace is not None and is_there and self._selects(namespace.labels)
        )

    def _selects(self, labels: Mapping[str, str]) -> bool:
        selector = self.targets.get("namespaceSelector") or {}
        pairs, wanted = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
        return bool(pairs or wanted) and (
            all(labels.get(key) == value for key, value in pairs.items())
            and all(labels.get(item["key"]) in item["values"] for item in wanted)  # scripts use only `In`
        )


class Copy(msgspec.Struct, frozen=True):
    """An object with the distributed name, of any owner, as it was from `revision` on."""

    revision: int
    uid: str
    owner: str
    """The uid of its controller."""
    is_there: bool
    is_deleting: bool
    content: Document
    metadata: Document

    def is_stuck(self, wanted: Document) -> bool:
        """Whether Kubernetes rejects the wanted content: the object is immutable, or the type of the Secret differs."""
        if self.content == wanted:
            return False
        return bool(self.content["immutable"]) or self.content.get("type") != wanted.get("type")


class DistributionRules:
    """Rules of one ResourceDistribution, by its name, across deletions and new creations. See `WorkloadRules`."""

    shelves = frozenset({DISTRIBUTIONS, NAMESPACES, *SHELVES.values()})

    def __init__(
        self, *, namespace: str, name: str, start: float, skew_s: float = 0.0, is_calm: bool = False
    ) -> None:
        self._name, self._start = name, start
        self.pods = PodHistory()
        self._distributions: list[Distribution] = []
        self._namespaces: dict[str, list[Namespace]] = {}
        self._copies: dict[str, list[Copy]] = {}
        """Copies by namespace. There is one kind and one name."""

    def hook_answer(self, state: str) -> Mapping[str, str | None]:
        """There are no lifecycle hooks."""
        return {}

    # ── every commit ─────────────────────────────────────────────────────────

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves`, in order."""
        doc: Any = commit.new if commit.new is not None else commit.old
        meta = doc["metadata"]
        is_there = commit.new is not None
        if commit.shelf == NAMESPACES:
            is_open = is_there and "deletionTimestamp" not in meta
            namespace = Namespace(commit.revision, is_there, is_open, meta.get("labels") or {})
            self._namespaces.setdefault(commit.key.name, []).append(namespace)
        elif commit.shelf == DISTRIBUTIONS:
            yield from self._on_distribution(commit, doc)
        elif self._distributions and commit.key.name == self._distributions[-1].resource["metadata"]["name"]:
            kind = self._distributions[-1].kind
            if commit.shelf == SHELVES[kind]:
                owners = [
                    reference["uid"]
                    for reference in meta.get("ownerReferences") or ()
                    if reference.get("controller")
                ]
                copy = Copy(
                    revision=commit.revision,
                    uid=meta["uid"],
                    owner=owners[0] if owners else "",
                    is_there=is_there,
                    is_deleting="deletionTimestamp" in meta,
                    content=content_of(kind, doc),
                    metadata=meta,
                )
                yield from self._on_copy(commit, copy)

    def _on_distribution(self, commit: Commit, doc: Any) -> Iterator[Violation]:
        meta, spec = doc["metadata"], doc["spec"]
        after = Distribution(
            revision=commit.revision,
            uid=meta["uid"],
            generation=meta["generation"],
            is_there=commit.new is not None and "deletionTimestamp" not in meta,
            resource=spec["resource"],
            content=content_of(spec["resource"]["kind"], spec["resource"]),
            targets=spec["targets"],
            status=doc.get("status") or {},
        )
        if commit.reconcile is not None and commit.new is not None:
            yield from self._on_status(commit, commit.reconcile, after)
        self._distributions.append(after)

    def _on_status(self, commit: Commit, reconcile: Reconcile, after: Distribution) -> Iterator[Violation]:
        """A status that a manager writes must be true for a state that the manager may know."""
        status = after.status
        known = [distribution for distribution in self._known(reconcile) if distribution.uid == after.uid]
        if tuple(condition["type"] for condition in status["conditions"]) != CONDITIONS:
            yield self._broken(commit, "conditions", "there are six conditions, in their order")
        if not any(_goes_on(distribution.status, status) for distribution in known):
            yield self._broken(commit, "conditions", "a time has changed, and its condition has not")
        said = [
            distribution for distribution in known if distribution.generation == status["observedGeneration"]
        ]
        if not said:
            yield self._broken(commit, "observed", f"{status['observedGeneration']} cannot have been seen")
        elif not any(self._may_say(reconcile, distribution, status) for distribution in said):
            numbers = {name: status[name] for name in ("desired", "succeeded", "failed")}
            yield self._broken(commit, "counts", f"no state that could be seen has {numbers}")

    def _may_say(self, reconcile: Reconcile, distribution: Distribution, status: Document) -> bool:
        surely = maybe = held = 0
        for name in {*self._namespaces, *distribution.names("includedNamespaces")}:
            namespaces = self._namespaces_known(name, reconcile)
            surely += all(distribution.is_target(name, namespace) for namespace in namespaces)
            if any(distribution.is_target(name, namespace) for namespace in namespaces):
                maybe += 1
                held += any(
                    copy.is_there and copy.owner == distribution.uid and copy.content == distribution.content
                    for copy in self._copies_known(name, reconcile)
                )
        desired, succeeded, failed = (int(status[name]) for name in ("desired", "succeeded", "failed"))
        return (
            surely <= desired <= maybe
            and succeeded <= held
            and succeeded + failed <= desired
            and self._may_fail(reconcile, distribution, status)
        )

    def _may_fail(self, reconcile: Reconcile, distribution: Distribution, status: Document) -> bool:
        """Whether the reported obstacle may exist in each namespace. The rules do not know which writes were
        rejected."""
        failed = {
            condition["type"]: condition.get("failedNamespaces") or () for condition in status["conditions"]
        }
        return all(
            any(
                copy.is_there and copy.owner != distribution.uid
                for copy in self._copies_known(name, reconcile)
            )
            for name in failed["ConflictOccurred"]
        ) and all(
            any(
                namespace is None or not namespace.is_open
                for namespace in self._namespaces_known(name, reconcile)
            )
            for name in failed["NamespaceNotExists"]
        )

    # ── copies ───────────────────────────────────────────────────────────────

    def _on_copy(self, commit: Commit, after: Copy) -> Iterator[Violation]:
        namespace, reconcile = commit.key.namespace, commit.reconcile
        versions = self._copies.setdefault(namespace, [])
        before = versions[-1] if commit.old is not None else None
        versions.append(after)
        if reconcile is None:
            return
        is_deleted = not after.is_there or (
            before is not None and after.is_deleting and not before.is_deleting
        )
        owners = (
            {copy.owner for copy in self._copies_known(namespace, reconcile)} if is_deleted else {after.owner}
        )
        active = [
            distribution
            for distribution in self._known(reconcile)
            if distribution.is_there and distribution.uid in owners
        ]
        if not active:
            yield self._broken(commit, "owner", "it is written for no distribution that is there")
        elif is_deleted:
            yield from self._on_deleted(commit, reconcile, active)
        else:
            yield from self._on_written(commit, reconcile, before, after, active)

    def _on_written(
        self,
        commit: Commit,
        reconcile: Reconcile,
        before: Copy | None,
        after: Copy,
        active: Sequence[Distribution],
    ) -> Iterator[Violation]:
        name = commit.key.namespace
        meant = [distribution for distribution in active if distribution.content == after.content]
        spaces = [
            namespace
            for namespace in self._namespaces_known(name, reconcile)
            if namespace is not None and namespace.is_open
        ]
        if not meant:
            yield self._broken(commit, "content", "what it holds was never asked for")
        elif not any(distribution.is_target(name, space) for distribution in meant for space in spaces):
            yield self._broken(commit, "target", "this namespace is to have no copy")
        if before is not None:
            yield from self._on_changed(commit, before, after)
        elif not any(
            _has_metadata(after.metadata, distribution.resource, self._name) for distribution in active
        ):
            yield self._broken(commit, "metadata", "it has not the labels and annotations of the resource")

    def _on_changed(self, commit: Commit, before: Copy, after: Copy) -> Iterator[Violation]:
        """Preconditions ensure that only the observed version is overwritten."""
        if before.owner != after.owner:
            yield self._broken(commit, "conflict", "it was not made by this distribution")
        if before.content == after.content:
            yield self._broken(commit, "needless", "it held what is wanted")
        for field in ("labels", "annotations", "finalizers", "ownerReferences"):
            old, new = before.metadata.get(field) or (), after.metadata.get(field) or ()
            lost = [item for item in old if item not in new]
            if lost:
                yield self._broken(commit, "metadata", f"{field} lost {lost}")

    def _on_deleted(
        self, commit: Commit, reconcile: Reconcile, active: Sequence[Distribution]
    ) -> Iterator[Violation]:
        """A manager deletes a copy only where it is not wanted; in a terminating namespace Kubernetes deletes it."""
        name = commit.key.namespace
        spaces = [
            namespace
            for namespace in self._namespaces_known(name, reconcile)
            if namespace is not None and namespace.is_open
        ]
        if not any(not distribution.is_target(name, space) for distribution in active for space in spaces):
            yield self._broken(commit, "deletion", "it is deleted, and the namespace is to have it")

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors, or missing work, that remain after a long time without faults."""
        if not self._distributions:
            return
        latest = self._distributions[-1]
        if not latest.is_there:
            left = [
                name
                for name, many in self._copies.items()
                if many[-1].is_there and many[-1].owner == latest.uid
            ]
            if left:
                yield Violation("gone", f"it is gone, but copies are in {sorted(left)}", now)
            return
        failed: dict[str, set[str]] = {type_: set() for type_ in CONDITIONS}
        desired = 0
        for name in {*self._namespaces, *latest.names("includedNamespaces")}:
            namespace = self._namespaces[name][-1] if name in self._namespaces else None
            copy = self._copies[name][-1] if name in self._copies else None
            if latest.is_target(name, namespace):
                desired += 1
                yield from self._is_served(latest, name, namespace, copy, failed, now)
            elif copy is not None and copy.is_there and copy.owner == latest.uid:
                yield Violation("converges", f"{name} has a copy, and is no target", now)
        yield from self._says_the_truth(latest, desired, failed, now)

    def _is_served(
        self,
        latest: Distribution,
        name: str,
        namespace: Namespace | None,
        copy: Copy | None,
        failed: Mapping[str, set[str]],
        now: float,
    ) -> Iterator[Violation]:
        """A target has its copy; otherwise it is added to `failed` if it cannot have one."""
        if namespace is None or not namespace.is_open:
            failed["NamespaceNotExists"].add(name)
        elif (copy is None or not copy.is_there) and _is_refused(latest.content):
            failed["CreateResourceFailed"].add(name)
        elif copy is None or not copy.is_there:
            yield Violation("converges", f"{name} has no copy", now)
        elif copy.owner != latest.uid:
            failed["ConflictOccurred"].add(name)
        elif copy.is_stuck(latest.content):
            failed["UpdateResourceFailed"].add(name)
        elif copy.content != latest.content:
            yield Violation("converges", f"the copy in {name} holds something else", now)

    def _says_the_truth(
        self, latest: Distribution, desired: int, failed: Mapping[str, set[str]], now: float
    ) -> Iterator[Violation]:
        count = sum(len(names) for names in failed.values())
        true: dict[str, Any] = {
            "desired": desired,
            "succeeded": desired - count,
            "failed": count,
            "observedGeneration": latest.generation,
        }
        true |= {type_: (str(bool(names)), sorted(names)) for type_, names in failed.items()}
        said: dict[str, Any] = {name: latest.status.get(name) for name in true}
        for condition in latest.status.get("conditions") or ():
            said[condition["type"]] = (condition["status"], condition.get("failedNamespaces") or [])
        wrong = {name: (said.get(name), value) for name, value in true.items() if said.get(name) != value}
        if wrong:
            yield Violation("status", f"the status says something else (said, true): {wrong}", now)

    # ── what is known ────────────────────────────────────────────────────────

    def _known(self, reconcile: Reconcile) -> Sequence[Distribution]:
        return list_versions_since(self._distributions, reconcile.known.get(DISTRIBUTIONS, 0))

    def _namespaces_known(self, name: str, reconcile: Reconcile) -> Sequence[Namespace | None]:
        """Namespaces that are known. None: perhaps none existed yet."""
        known = reconcile.known.get(NAMESPACES, 0)
        versions = self._namespaces.get(name) or ()
        never = [None] if not versions or versions[0].revision > known else []
        return [*never, *list_versions_since(versions, known)]

    def _copies_known(self, name: str, reconcile: Reconcile) -> Sequence[Copy]:
        kind = self._distributions[-1].kind
        return list_versions_since(self._copies.get(name) or (), reconcile.known.get(SHELVES[kind], 0))

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        where = f"{commit.key.namespace}: " if commit.key.namespace else ""
        return Violation(rule, f"{where}{what} (by {commit.sender})", commit.at - self._start)


def _is_refused(content: Document) -> bool:
    """Whether no API server stores such a Secret."""
    return content.get("type") == "kubernetes.io/basic-auth" and not {"username", "password"} & {
        *content["data"]
    }


def _goes_on(before: Document, after: Document) -> bool:
    """Whether each condition with an unchanged status keeps its time."""
    old = {condition["type"]: condition for condition in before.get("conditions") or ()}
    return all(
        condition["lastTransitionTime"] == old[condition["type"]]["lastTransitionTime"]
        for condition in after["conditions"]
        if condition["type"] in old and old[condition["type"]]["status"] == condition["status"]
    )


def _has_metadata(metadata: Document, resource: Document, name: str) -> bool:
    """Whether a new copy has the metadata of the resource, and names its source."""
    wanted = resource["metadata"]
    annotations = {**(wanted.get("annotations") or {}), FROM: name}
    given = metadata["annotations"]
    return (
        metadata.get("labels") == wanted.get("labels")
        and all(given.get(key) == value for key, value in annotations.items())
        and HASH in given
    )
