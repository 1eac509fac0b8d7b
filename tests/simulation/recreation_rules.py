"""Rules of ContainerRecreateRequests for pods of a workload.

a request is created ──▶ it describes its pod correctly, and its content does not change
the agent works   ──▶ one request per pod at a time; no container is stopped twice, too early, or in the wrong order
the manager works ──▶ the pod is out of service for the grace period; reported states were true; late requests end
at rest           ──▶ every request has ended, and its pod has no marks of it

Agents are checked by the stored objects, because their watches have no faults; managers as in rules.py.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pykruise.kube.documents import Document
from pykruise.testing.simulation.history import Commit, Reconcile, list_versions_since
from simulation.recreation_documents import (
    ACTIVE,
    FINALIZER,
    NODE_NAME,
    OWN,
    POD_UID,
    Pod,
    Request,
    read_pod,
    read_request,
)
from simulation.rules import PODS, Scene, Violation

__all__ = ["RecreationRules"]

REQUESTS = "containerrecreaterequests.apps.kruise.io"
GONE = "pod has gone"
NO_ANSWER = "daemon has not responded for a long time"
TOO_LATE = "recreating has exceeded the activeDeadlineSeconds"
ANSWER_S = 60.0
LATE_S = 10.0
"""Seconds in which due work is done, without faults."""
SEEN_S = 2.0
"""Seconds after which agents know a request, and maximum age of the data of a webhook, without faults."""
STOPPING_S = 30.0
"""Seconds until a container that is being stopped ends, independent of the request."""


class RecreationRules:
    """Rules of all requests of the namespace. See `BesideRules`."""

    controllers = ("crr",)
    shelves = frozenset({REQUESTS, PODS})

    def __init__(self, scene: Scene) -> None:
        self._namespace = scene.namespace
        self._start, self._skew_s, self._is_calm = scene.start, scene.skew_s, scene.is_calm
        self._pods: dict[str, list[Pod]] = {}
        self._requests: dict[str, list[Request]] = {}
        """Uid → versions of the request; `_pods` likewise."""
        self._stopped: set[tuple[str, str]] = set()
        """Requests and containers that were stopped for them."""
        self._runs: set[tuple[str, str]] = set()
        """Pods and ids of runs that are known to have been stopped."""

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves`, in order."""
        if commit.key.namespace != self._namespace:
            return
        if commit.shelf == PODS:
            yield from self._on_pod(commit)
        else:
            yield from self._on_request(commit)

    # ── pods ─────────────────────────────────────────────────────────────────

    def _on_pod(self, commit: Commit) -> Iterator[Violation]:
        pod = read_pod(commit)
        versions = self._pods.setdefault(pod.uid, [])
        before = versions[-1] if versions else None
        versions.append(pod)
        for name, run in pod.runs.items():
            for id_, ended_at in run.stopped.items():
                if (pod.uid, id_) not in self._runs:
                    self._runs.add((pod.uid, id_))
                    yield from self._on_stopped(commit, pod, name, id_, ended_at)
        if commit.reconcile is not None and before is not None:
            yield from self._on_held(commit, commit.reconcile, before, pod)

    def _on_stopped(
        self, commit: Commit, pod: Pod, name: str, id_: str, ended_at: float
    ) -> Iterator[Violation]:
        """An agent has stopped a container: a request for it was active, and its turn had come."""
        what = f"container {name} of {pod.name} is stopped"
        begun = [
            versions[-1]
            for versions in self._of_pod(pod.uid)
            if name in versions[-1].names and self._began_at(versions) < commit.at
        ]
        if not begun:
            yield self._broken(commit, "stopped", f"{what}, nobody asked for that")
            return
        request = max(begun, key=lambda request: self._began_at(self._requests[request.uid]))
        if not request.is_open and self._ended_at(self._requests[request.uid]) < ended_at - STOPPING_S:
            yield self._broken(commit, "stopped", f"{what}, {request.key} is over")
        if (request.uid, name) in self._stopped:
            yield self._broken(commit, "stopped", f"{what} twice for {request.key}")
        self._stopped.add((request.uid, name))
        if request.contexts[name][0] != id_ and not request.strategy.get("forceRecreate"):
            yield self._broken(commit, "stopped", f"{what}, it had been started anew since {request.key}")
        if request.grace is not None:
            since_ = request.held_since
            if since_ is None or since_ + request.grace > ended_at:
                yield self._broken(commit, "grace", f"{what}, its grace period is not over")
        earlier = request.names[: request.names.index(name)]
        waiting = [text for text in earlier if request.states.get(text) not in ("Succeeded", "Failed")]
        if request.strategy.get("orderedRecreate") and waiting:
            yield self._broken(commit, "ordered", f"{what} before {waiting} are done")

    def _on_held(self, commit: Commit, reconcile: Reconcile, before: Pod, after: Pod) -> Iterator[Violation]:
        """A manager writes to a pod only the requests that hold it."""
        if before.is_there and before.rest != after.rest:
            yield self._broken(commit, "touched", f"{after.name} is changed")
        if after.gate != ("False" if after.holders else "True"):
            yield self._broken(commit, "hold", f"{after.name}: {after.gate}, held by {after.holders}")
        known = [
            version
            for versions in self._of_pod(after.uid)
            for version in list_versions_since(versions, reconcile.known.get(REQUESTS, 0))
        ]
        for holder in set(after.holders) - set(before.holders):
            asked = [
                request for request in known if (OWN, request.key) == holder and request.grace is not None
            ]
            if not any(request.is_carried_out for request in asked):
                yield self._broken(
                    commit, "hold", f"{after.name} is held for {holder}, which is not carried out"
                )
        for holder in set(before.holders) - set(after.holders):
            if not any((OWN, request.key) == holder for request in known if not request.is_open):
                yield self._broken(commit, "hold", f"{after.name} is not held for {holder} any more")

    # ── requests ─────────────────────────────────────────────────────────────

    def _on_request(self, commit: Commit) -> Iterator[Violation]:
        after = read_request(commit)
        versions = self._requests.setdefault(after.uid, [])
        before = versions[-1] if versions else None
        versions.append(after)
        if before is None:
            yield from self._on_asked(commit, after)
            return
        fixed = [
            (request.spec, request.pod_uid, request.labels.get(NODE_NAME)) for request in (before, after)
        ]
        if fixed[0] != fixed[1]:
            yield self._broken(commit, "fixed", f"{after.key} means something else: {fixed}")
        if before.is_over and before.end != after.end:
            yield self._broken(commit, "finished", f"{after.key} was {before.end}, is {after.end}")
        if before.phase == "Recreating" and after.phase not in ("Recreating", "Completed"):
            yield self._broken(commit, "finished", f"{after.key} is {after.phase}, and was begun")
        back = [
            state for state, said in before.states.items() if said == "Succeeded" != after.states.get(state)
        ]
        if back:
            yield self._broken(commit, "finished", f"{after.key}: {back} had succeeded")
        if before.held_since not in (None, after.held_since):
            yield self._broken(commit, "grace", f"{after.key}: the grace period begins anew")
        if commit.reconcile is not None:
            yield from self._by_manager(commit, commit.reconcile, before, after)
        elif not commit.sender:
            yield from self._by_agent(commit, before, after)

    def _on_asked(self, commit: Commit, request: Request) -> Iterator[Violation]:
        """Admission has set the values that the agent needs."""
        pods = [
            pod
            for versions in self._pods.values()
            for pod in (since_time(versions, commit.at - SEEN_S) if self._is_calm else versions)
            if pod.name == request.spec["podName"] and pod.is_there
        ]
        if not any(is_filled_in(request, pod) for pod in pods):
            yield self._broken(commit, "admission", f"{request.key} says {request.labels}, {request.spec}")

    def _by_manager(
        self, commit: Commit, reconcile: Reconcile, before: Request, after: Request
    ) -> Iterator[Violation]:
        known = list_versions_since(self._requests[after.uid][:-1], reconcile.known.get(REQUESTS, 0))
        if before.is_there and not after.is_there:
            if not any(request.gone_after <= commit.at + self._skew_s for request in known):
                yield self._broken(commit, "ttl", f"{after.key} is deleted before its time")
            return
        if before.states != after.states:
            yield self._broken(
                commit, "touched", f"{after.key}: {dict(after.states)} is for its agent to say"
            )
        if ACTIVE in before.labels and ACTIVE not in after.labels and not after.is_over:
            yield self._broken(commit, "active", f"{after.key} is hidden from its agent, and not over")
        if after.is_over and not before.is_over:
            yield from self._on_ended(commit, reconcile, after, known)
        elif before.phase != after.phase:
            yield self._broken(commit, "touched", f"{after.key} is {after.phase}: for its agent to say")
        if before.mirror != after.mirror:
            yield from self._on_mirrored(commit, reconcile, before, after)
        if before.held_since is None and after.held_since is not None:
            yield from self._on_grace(commit, before, after)
        if FINALIZER in before.finalizers and FINALIZER not in after.finalizers:
            pod = self._pod_of(after)
            if before.is_open or (pod.is_there and (OWN, after.key) in pod.holders):
                yield self._broken(commit, "hold", f"{after.key} lets go of {pod.name}: {pod.holders}")

    def _on_ended(
        self, commit: Commit, reconcile: Reconcile, request: Request, known: Sequence[Request]
    ) -> Iterator[Violation]:
        """The request ends without success, for a true reason."""
        message = request.status.get("message")
        late = commit.at - LATE_S if self._is_calm else 0.0
        latest = commit.at + self._skew_s
        gone_at = next((pod.at for pod in self._pods[request.pod_uid] if not pod.is_there), float("inf"))
        if message == GONE:
            pods = list_versions_since(self._pods[request.pod_uid], reconcile.known.get(PODS, 0))
            if all(pod.is_there for pod in pods):
                yield self._broken(commit, "ended", f"{request.key}: its pod is there")
        elif message == TOO_LATE:
            if request.deadline > latest:
                yield self._broken(commit, "deadline", f"{request.key} ends before its deadline")
        elif message != NO_ANSWER or all(request.phase == "Recreating" for request in known):
            yield self._broken(commit, "ended", f"{request.key} ends: {message}")
        else:
            begins_at = max((request.created, *self._others_until(request, reconcile)))
            if begins_at + ANSWER_S > latest:
                yield self._broken(commit, "answer", f"{request.key} ends, and its agent had no time")
        if max(gone_at, request.created) < late or request.deadline < late:
            yield self._broken(commit, "late", f"{request.key} ends late: {message}")

    def _others_until(self, request: Request, reconcile: Reconcile) -> Iterator[float]:
        """End of each other request for the pod that certainly was carried out; infinite: it has not ended."""
        for versions in self._of_pod(request.pod_uid):
            known = list_versions_since(versions, reconcile.known.get(REQUESTS, 0))
            if versions[0].uid != request.uid and any(version.is_carried_out for version in versions):
                yield min(
                    float("inf") if request.is_carried_out else self._ended_at(versions) for request in known
                )

    def _on_mirrored(
        self, commit: Commit, reconcile: Reconcile, before: Request, after: Request
    ) -> Iterator[Violation]:
        if not before.is_carried_out:
            yield self._broken(commit, "mirror", f"{after.key} is not carried out")
        pods = list_versions_since(self._pods[after.pod_uid], reconcile.known.get(PODS, 0))
        if not any(mirror_of(after, pod) == after.mirror for pod in pods):
            yield self._broken(commit, "mirror", f"{after.key} says {after.mirror}")

    def _on_grace(self, commit: Commit, before: Request, after: Request) -> Iterator[Violation]:
        """The grace period counts from when the pod is out of service."""
        if before.grace is None or not before.is_carried_out:
            yield self._broken(commit, "grace", f"{after.key} has none, or is not carried out")
        pod = self._pod_of(after)
        if pod.is_there and pod.is_gated and (OWN, after.key) not in pod.holders:
            yield self._broken(commit, "grace", f"{pod.name} is not out of service for {after.key}")
        if pod.is_gated and FINALIZER not in after.finalizers:
            yield self._broken(commit, "hold", f"{after.key} may be forgotten while it holds {pod.name}")
        assert after.held_since is not None
        if self._is_calm and abs(commit.at - after.held_since) > LATE_S:
            yield self._broken(commit, "grace", f"{after.key} counts from {after.held_since}")

    def _by_agent(self, commit: Commit, before: Request, after: Request) -> Iterator[Violation]:
        if before.phase != after.phase == "Recreating":
            yield from self._on_begun(commit, after)
        done = [
            state for state, said in after.states.items() if said == "Succeeded" != before.states.get(state)
        ]
        for name in done:
            if not self._is_done(commit, before, name):
                yield self._broken(commit, "done", f"container {name} of {after.key} has not succeeded")
        if after.is_over and not before.is_over:
            if [after.states.get(name) for name in after.names] != ["Succeeded"] * len(after.names):
                yield self._broken(commit, "complete", f"{after.key} is over: {dict(after.states)}")
            spared = [name for name in after.names if name not in after.killed]
            if spared and after.strategy.get("forceRecreate"):
                yield self._broken(commit, "complete", f"{after.key} is over, {spared} were not stopped")
            if self._is_calm and commit.at > after.deadline + LATE_S:
                yield self._broken(commit, "late", f"{after.key} goes on after its deadline")

    def _on_begun(self, commit: Commit, request: Request) -> Iterator[Violation]:
        """Only one request per pod is active, the oldest first; a request without a response has timed out."""
        others = [versions for versions in self._of_pod(request.pod_uid) if versions[0].uid != request.uid]
        busy = [versions[-1].key for versions in others if versions[-1].is_carried_out]
        older = [
            versions[-1].key
            for versions in others
            if versions[-1].is_open
            and versions[-1].created < request.created
            and versions[0].at < commit.at - SEEN_S
        ]
        if busy or older:
            yield self._broken(commit, "turn", f"{request.key} begins before {busy or older}")
        begins_at = max([request.created, *(self._ended_at(versions) for versions in others)])
        if self._is_calm and begins_at + ANSWER_S + LATE_S < commit.at:
            yield self._broken(commit, "late", f"{request.key} begins, and nobody had answered for long")

    def _is_done(self, commit: Commit, request: Request, name: str) -> bool:
        """Whether another run of the container was ready, as reported to the agent, and has run for long enough."""
        told = [entry for entry in request.mirror if entry["name"] == name and entry["ready"]]
        least = commit.at - (request.strategy.get("minStartedSeconds") or 0)
        return any(
            run.id == entry["containerID"]
            and run.is_ready
            and request.is_new(name, run)
            and run.started_at < least
            for entry in told
            for pod in self._pods[request.pod_uid]
            for run in [pod.runs.get(name)]
            if run is not None and run.started_at is not None
        )

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors, or missing work, that remain after a long time without faults."""
        for versions in self._requests.values():
            request = versions[-1]
            if not request.is_stored:
                continue
            if not request.is_over:
                yield Violation("converges", f"{request.key} is {request.phase or 'not begun'}", now)
            if not request.is_there or FINALIZER in request.finalizers:
                yield Violation("gone", f"{request.key} has {request.finalizers}", now)
            if ACTIVE in request.labels:
                yield Violation("active", f"{request.key} is over, and its agent sees it", now)
            if request.gone_after < float("inf"):
                yield Violation("ttl", f"{request.key} is over, and will be deleted", now)
        for pods in self._pods.values():
            if pods[-1].is_there and any(who == OWN for who, _ in pods[-1].holders):
                yield Violation("gone", f"{pods[-1].name} is held by {pods[-1].holders}", now)

    # ── what was ─────────────────────────────────────────────────────────────

    def _of_pod(self, uid: str) -> list[list[Request]]:
        return [versions for versions in self._requests.values() if versions[0].pod_uid == uid]

    def _pod_of(self, request: Request) -> Pod:
        return self._pods[request.pod_uid][-1]

    def _began_at(self, versions: Sequence[Request]) -> float:
        return next((version.at for version in versions if version.phase == "Recreating"), float("inf"))

    def _ended_at(self, versions: Sequence[Request]) -> float:
        return next((version.at for version in versions if not version.is_open), float("inf"))

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        return Violation(rule, f"{what} (by {commit.sender or 'an agent'})", commit.at - self._start)


def since_time(versions: Sequence[Pod], at: float) -> Sequence[Pod]:
    """The version at that time, and all later ones."""
    first = max((number for number, version in enumerate(versions) if version.at <= at), default=0)
    return versions[first:]


def is_filled_in(request: Request, pod: Pod) -> bool:
    """Whether a request contains the required values for such a pod."""
    spec = pod.document["spec"]
    labels = request.labels
    known = (labels.get(POD_UID), labels.get(NODE_NAME), labels.get(ACTIVE))
    strategy = request.strategy
    return (
        known == (pod.uid, spec.get("nodeName"), "true")
        and strategy.get("failurePolicy") in ("Fail", "Ignore")
        and "terminationGracePeriodSeconds" in strategy
        and all(_is_copied(container, pod) for container in request.spec["containers"])
    )


def _is_copied(target: Document, pod: Pod) -> bool:
    result: Any = next(
        container for container in pod.document["spec"]["containers"] if container["name"] == target["name"]
    )
    hook = (result.get("lifecycle") or {}).get("preStop")
    ports = result.get("ports") if "httpGet" in (hook or {}) else None
    run = pod.runs.get(target["name"])
    context = target.get("statusContext")
    if run is None or context is None or (target.get("preStop"), target.get("ports")) != (hook, ports):
        return False
    return bool(run.id) and (context["containerID"], context["restartCount"]) == (run.id, run.restarts)


def mirror_of(request: Request, pod: Pod) -> list[Document]:
    """The container states that an agent must get."""
    return [
        {"name": name, "ready": run.is_ready, "restartCount": run.restarts, "containerID": run.id}
        for name in request.names
        for run in [pod.runs.get(name)]
        if run is not None and request.is_new(name, run)
    ]
