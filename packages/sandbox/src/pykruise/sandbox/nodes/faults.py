"""Scripted failures, as values: the containers that they match, and their effect.

    Rule(image="shop:2.*", node="node-1", never_ready=True)
    Rule(labels="app=shop", exit_code=1, after_s=30)

rules ──▶ behaviour_of(container of a pod on a node) ──▶ Behaviour ──▶ pod_state.py simulates it

Pure. For each aspect (start, readiness, exit, ...), the first matching rule that sets it decides. Aspects that no
rule sets follow the kubelet's settings. Rules may be changed while pods run.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from pykruise.kube.values.selectors import parse_label_selector
from pykruise.sandbox.pod_view import SandboxPodView


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scripted failure. Empty matchers match everything; times are in seconds.

    `image`, `node`, `container`, `namespace` and `pod` are shell patterns (`*`, `?`, `[...]`) for the values in the
    pod; `labels` is a label selector for the pod (`app=web,tier!=db`).
    """

    image: str = ""
    node: str = ""
    container: str = ""
    namespace: str = ""
    pod: str = ""
    labels: str = ""
    first_runs: int | None = None
    """The rule affects this number of starts of a container, beginning with the first; None means all starts."""

    image_pull_error: bool = False
    """The image cannot be pulled: ErrImagePull, then ImagePullBackOff. A rule that has no matchers but `image`
    and `node` also affects pulls of ImagePullJobs; `first_runs` then counts attempts.
    """
    pull_s: float | None = None
    """Seconds that a node needs to pull an image that it does not have."""
    start_s: float | None = None
    """Seconds that a container needs to start."""
    ready_s: float | None = None
    """Seconds that a running container needs to become ready."""
    never_ready: bool = False
    """The container runs but is not ready: from the start, or after it has run for `after_s`."""
    exit_code: int | None = None
    """Code with which the container ends after it has run for `after_s` (0 means success)."""
    after_s: float = 0.0
    stop_s: float | None = None
    """Seconds that a container needs to stop. The grace period of a deleted pod does not shorten them; a container that
    is restarted on request is killed after the grace period of the request.
    """
    fails_probe: str = ""
    """Probes of PodProbeMarkers that fail after the container has run for `after_s`: a shell pattern of
    `<marker>#<probe>`.
    """
    output: str = ""
    """Output of such a probe."""

    def matches(self, pod: SandboxPodView, *, container: str, image: str, run: int) -> bool:
        """Whether the rule matches the `run`-th start (from 1) of this container of the pod."""
        return (
            _is_like(image, self.image)
            and _is_like(pod.node_name, self.node)
            and _is_like(container, self.container)
            and _is_like(pod.namespace, self.namespace)
            and _is_like(pod.name, self.pod)
            and (self.first_runs is None or run <= self.first_runs)
            and (not self.labels or parse_label_selector(self.labels).matches(pod.labels))
        )

    def is_about_pull(self, image: str, *, node: str, attempt: int) -> bool:
        """Whether the rule matches the `attempt`-th attempt (from 1) to pull an image to a node, for any pod."""
        return (
            not (self.container or self.namespace or self.pod or self.labels)
            and _is_like(image, self.image)
            and _is_like(node, self.node)
            and (self.first_runs is None or attempt <= self.first_runs)
        )


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """Behaviour of one start of a container according to the rules; None where no rule matches."""

    image_pull_error: bool = False
    pull_s: float | None = None
    start_s: float | None = None
    ready_s: float | None = None
    unready_after_s: float | None = None
    """Seconds after which the running container is no longer ready (0: never ready)."""
    exit_code: int | None = None
    exit_after_s: float = 0.0
    stop_s: float | None = None


NORMAL = Behaviour()
"""Behaviour without failures."""


def behaviour_of(
    rules: Sequence[Rule], pod: SandboxPodView, *, container: str, image: str, run: int = 1
) -> Behaviour:
    """Return the behaviour of the `run`-th start (from 1) of this container."""
    if not rules:
        return NORMAL
    result = [rule for rule in rules if rule.matches(pod, container=container, image=image, run=run)]
    if not result:
        return NORMAL
    unready = next((rule for rule in result if rule.never_ready), None)
    ends = next((rule for rule in result if rule.exit_code is not None), None)
    return Behaviour(
        image_pull_error=any(rule.image_pull_error for rule in result),
        pull_s=_find_first(rule.pull_s for rule in result),
        start_s=_find_first(rule.start_s for rule in result),
        ready_s=_find_first(rule.ready_s for rule in result),
        unready_after_s=unready.after_s if unready else None,
        exit_code=ends.exit_code if ends else None,
        exit_after_s=ends.after_s if ends else 0.0,
        stop_s=_find_first(rule.stop_s for rule in result),
    )


def pull_of(rules: Sequence[Rule], image: str, *, node: str, attempt: int) -> tuple[bool, float | None]:
    """Return the behaviour of an attempt (from 1) of an agent to pull an image: whether it fails, and its duration if a
    rule sets one.
    """
    result = [rule for rule in rules if rule.is_about_pull(image, node=node, attempt=attempt)]
    return any(rule.image_pull_error for rule in result), _find_first(rule.pull_s for rule in result)


def find_failed_probe(
    rules: Sequence[Rule],
    pod: SandboxPodView,
    probe: str,
    *,
    container: str,
    image: str,
    run: int,
    running_s: float,
) -> str | None:
    """Output of a failing probe (`<marker>#<probe>`) of a container that has run this long; None if it succeeds."""
    for rule in rules:
        if (
            rule.fails_probe
            and fnmatchcase(probe, rule.fails_probe)
            and running_s >= rule.after_s
            and rule.matches(pod, container=container, image=image, run=run)
        ):
            return rule.output or "failed (scripted)"
    return None


def parse_rules(documents: Any) -> tuple[Rule, ...]:
    """Convert plain values (a list of mappings, as from YAML) to rules.

    Raises ValueError with the invalid entry and its place, also for an invalid selector.
    """
    try:
        rules = msgspec.convert(documents, tuple[Rule, ...])
    except msgspec.ValidationError as err:
        raise ValueError(f"faults: {err}") from err
    for number, rule in enumerate(rules):
        try:
            parse_label_selector(rule.labels)
        except ValueError as err:
            raise ValueError(f"faults: `$[{number}].labels`: {err}") from err
    return rules


def _is_like(text: str, pattern: str) -> bool:
    return not pattern or fnmatchcase(text, pattern)


def _find_first(values: Iterable[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)
