"""Objects of every kind: one for each rule and condition of its declaration, and for each point of a rollout.

KINDS ──▶ objects_of(kind) ──▶ (description, document), for each output that shows the progress of an object
"""

from collections.abc import Iterator
from typing import Any

from pykruise.kinds import list_kinds
from pykruise.kube.documents import Document, get_path
from pykruise.plans.kind import Kind
from pykruise.plans.progress import (
    Condition,
    Count,
    Difference,
    Differs,
    Has,
    Is,
    IsTrue,
    Items,
    Less,
    Number,
    PhaseRules,
    Positive,
    ProgressCounts,
    Rollout,
    Sum,
    Zero,
)
from pykruise.plans.shown import Shown
from pykruise.pods.reasons import AT_REST, DEADLINE_EXCEEDED, HELD, NEEDS_A_PERSON, NEVER_OBSERVED, Code

__all__ = ["KINDS", "bare", "objects_of", "shown_by"]

KINDS = {kind.name: kind for kind in list_kinds() if kind.versions}

IN_KIND = {
    "deletionTimestamp": {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    "no status": {},
    "of an older generation": {"status": {"observedGeneration": 1}},
    "observed": {"status": {"observedGeneration": 2}},
}


def shown_by(kind: Kind) -> Shown:
    assert kind.shown is not None, f"{kind.name} does not show itself"
    return kind.shown


def bare(kind: Kind) -> Document:
    resource = kind.resource
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 2},
        "spec": {},
        "status": {"observedGeneration": 2},
    }


def put(document: Document, path: str, value: Any) -> None:
    names = path.split(".")
    for name in names[:-1]:
        document = document.setdefault(name, {})
    document[names[-1]] = value


def set_number(document: Document, number: Number, value: int) -> None:
    match number:
        case Count(path):
            put(document, path, value)
        case Items(path, field, wanted):
            listed = list(get_path(document, *path.split("."), default=()))
            made = ({field: wanted} if field else {"name": f"item-{n}"} for n in range(value))
            put(document, path, [*listed, *made])
        case Sum(path):
            put(document, path, {"a": value})
        case Difference(more, less):
            set_number(document, more, value)
            set_number(document, less, 0)


def make_true(document: Document, condition: Condition) -> None:
    match condition:
        case Is(path, values):
            put(document, path, values[-1])
        case IsTrue(path):
            put(document, path, True)
        case Has(path, is_there):
            if is_there:
                put(document, path, "2026-01-01T00:00:00Z")
        case Positive(number):
            set_number(document, number, 1)
        case Zero(number):
            set_number(document, number, 0)
        case Less(number, than):
            set_number(document, number, 1)
            set_number(document, than, 2)
        case Differs(path, other):
            put(document, path, "a")
            put(document, other, "b")


def by_rules(kind: Kind, rules: PhaseRules) -> Iterator[tuple[str, Document]]:
    """An object for each rule."""
    for number, rule in enumerate(rules.rules):
        document = bare(kind)
        for condition in rule.all:
            make_true(document, condition)
        yield f"rule {number}", document


def condition(kind: str, reason: str, status: str = "True") -> Document:
    return {"type": kind, "status": status, "reason": reason, "message": f"{kind}: {reason}"}


def by_conditions(kind: Kind) -> Iterator[tuple[str, Document]]:
    """An object for each sort of reason that a condition may have."""
    reasons = [
        "Converged",
        DEADLINE_EXCEEDED,
        *(min(codes) for codes in (HELD, NEEDS_A_PERSON, AT_REST, NEVER_OBSERVED)),
    ]
    reasons += [Code.UPDATING, Code.PAUSED, Code.IMAGE_PULL]
    for reason in dict.fromkeys(reasons):
        for listed in (
            [condition("Ready", reason)],
            [condition("Ready", reason, "False"), condition("Reconciling", reason)],
            [condition("Ready", reason, "False"), condition("Stalled", reason)],
            [condition("Waiting", reason)],
            [condition("Ready", "FailedUpdate", "False"), condition("Waiting", reason)],
            [condition("Progressing", reason, "False")],
        ):
            for seen in (1, 2):
                document = bare(kind)
                document["status"] = {"observedGeneration": seen, "conditions": listed}
                yield f"{'+'.join(entry['type'] for entry in listed)} {reason} seen {seen}", document


def by_counts(kind: Kind, shown: Shown, counts: ProgressCounts) -> Iterator[tuple[str, Document]]:
    """Objects at several points of a rollout, held in several ways."""
    points = [
        (0, 0, 0, 0),
        (3, 1, 1, 2),
        (3, 1, 1, 3),
        (3, 2, 2, 3),
        (3, 3, 2, 3),
        (3, 3, 3, 2),
        (3, 3, 3, 3),
    ]
    holds: list[dict[str, Any]] = [
        {},
        {"paused": True},
        {"partition": 1},
        {"partition": "50%"},
        {"partition": "100%"},
    ]
    for wanted, updated, ready, available in points:
        for hold in holds:
            for strategy in ("RollingUpdate", "OnDelete", "NotUpdate"):
                document = bare(kind)
                put(document, "spec.updateStrategy.type", strategy)
                values = (
                    (counts.available, available),
                    (counts.updated_ready, ready),
                    (counts.updated, updated),
                    (counts.wanted, wanted),
                )
                for number, value in values:
                    if number is not None:
                        set_number(document, number, value)
                for name, value in hold.items():
                    if name in shown.fields:
                        put(document, shown.fields[name].hub, value)
                yield f"{wanted} {updated} {ready} {available} {hold} {strategy}", document


def objects_of(kind: Kind) -> Iterator[tuple[str, Document]]:
    for name, more in IN_KIND.items():
        document = {key: value for key, value in bare(kind).items() if key != "status"}
        document |= {
            "metadata": {**document["metadata"], **more.get("metadata", {})},
            "status": more.get("status", {}),
        }
        yield name, document
    shown = shown_by(kind)
    if isinstance(shown.progress, PhaseRules):
        yield from by_rules(kind, shown.progress)
    if isinstance(shown.progress, Rollout):
        yield from by_conditions(kind)
        yield from by_counts(kind, shown, shown.progress.counts)
