"""Differences of the sandbox from Kubernetes, with their reasons. docs/sandbox.md shows this list.

A difference names a case, one of its steps (from 1) and places in the normalised response. It covers only the parts
below these places, and it must exist: the suite fails for a difference that no longer exists.

If the two minors respond differently, `MINORS` contains the differences between them. The sandbox of a minor follows
that minor, or at some of these places, either minor.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = [
    "DIFFERENCES",
    "MINORS",
    "Difference",
    "MinorsDiffer",
    "covered",
    "documented",
    "explained",
    "may_follow_either",
]


@dataclass(frozen=True)
class Difference:
    """A difference. `at`: dotted paths in the response, such as `body.message`; empty: the whole response differs."""

    case: str
    step: int
    why: str
    at: tuple[str, ...] = ()
    minor: str = ""
    """The minor with this difference; empty: all."""

    def covers(self, path: str) -> bool:
        """Whether the path is one of `at`, or below one."""
        return not self.at or any(path == each or path.startswith(f"{each}.") for each in self.at)


@dataclass(frozen=True)
class MinorsDiffer:
    """A difference between Kubernetes 1.32 and 1.37: the behaviour `what` of 1.37, a pattern for its place (a dotted
    path), and its cases.
    """

    what: str
    at: str
    case: str = ""
    is_followed: bool = False
    """Whether the sandbox of each minor responds as that minor here; otherwise it may respond like either of them."""

    def covers(self, case: str, path: str) -> bool:
        """Whether this difference explains one at this place of a case."""
        return self.case in case and re.search(self.at, path) is not None


_TEXT: Final = (
    "For a body that cannot be parsed, the error message differs from that of Go's decoders. Code, reason and field "
    "are the same."
)
_VALUE: Final = (
    "Error messages show an invalid value in another form than Kubernetes does, or shortened. Code, reason and field "
    "are the same."
)
_NULL: Final = (
    "The sandbox stores an empty list as an empty list. Kubernetes decodes objects into Go structs, which changes some "
    "empty lists to null."
)
_WARN: Final = (
    "For valid objects with questionable values, Kubernetes returns a warning, and the sandbox does not."
)
_NULLBODY: Final = (
    "The sandbox rejects a body that is the JSON null. Kubernetes treats it as an empty object."
)
_TWICE: Final = (
    "The sandbox does not detect a duplicate field, because the JSON parser does not report "
    "it; the last value is used. kubectl detects duplicate fields."
)
_POINTER: Final = (
    "The sandbox rejects a JSON patch with a path that does not begin with a slash. Kubernetes "
    "applies it to another field."
)
_BOOKMARK: Final = (
    "A watch with bookmarks gets a bookmark at its end, even if the watch was very short. Kubernetes sends this "
    "bookmark two seconds before the end."
)
_JOB: Final = "A Job with a selector and without manualSelector is rejected with one cause instead of two."
_EVENTS: Final = "Events of events.k8s.io contain empty fields, and errors about them name the group."
_ENDPOINTS: Final = "The sandbox does not check the addresses of Endpoints."
_CASCADE: Final = (
    "The comparison numbers resourceVersions in their order, so a difference in an earlier step changes "
    "these numbers."
)
_PLAIN: Final = (
    "For a namespaced path to a cluster-scoped custom resource, the 404 contains a Status instead of plain "
    "text."
)
_SCHEMA: Final = (
    "When one field of a CRD's schema has several errors, the sandbox does not report all of them, or reports an "
    "additional one."
)
_DAEMON: Final = "In the table of DaemonSets, the metadata of the objects contains an internal annotation."
_FORM: Final = (
    "A client may accept only the metadata of one object although the response is a list, or the reverse. It then gets "
    "the response instead of 406."
)
_NOOP: Final = (
    "The sandbox does not write an update that changes only fields that the API server resets. Kubernetes writes new "
    "managedFields."
)
_OFFERS: Final = "The text of a 406 does not list the media types of watch streams."

DIFFERENCES: Final = (
    Difference("a body that is no JSON is a bad request", 7, _TEXT, at=("body.message",)),
    Difference("a body that is no JSON is a bad request", 8, _TEXT, at=("body.message",)),
    Difference("a body that is no JSON is a bad request", 9, _TEXT, at=("body.message",)),
    Difference("a body of another kind is refused", 3, _TEXT, at=("body.message",)),
    Difference(
        "a patch that makes no object is unprocessable",
        2,
        _TEXT,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference(
        "a patch that makes no object is unprocessable",
        5,
        _TEXT,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference(
        "a patch that makes no object is unprocessable",
        6,
        _TEXT,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference(
        "a patch that makes no object is unprocessable",
        7,
        _TEXT,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference(
        "unknown fields are ignored, warned about or refused",
        10,
        _TEXT,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference("YAML is read and written", 2, _TEXT, at=("body.message",)),
    Difference("options of a request must make sense", 7, _TEXT, at=("body.message",)),
    Difference(
        "bad directives of a strategic merge patch are refused",
        4,
        _TEXT,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference(
        "bad directives of a strategic merge patch are refused",
        5,
        _TEXT,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference("a JSON patch that fails changes nothing", 10, _TEXT, at=("body.message",)),
    Difference("delete options must be delete options", 5, _TEXT, at=("body.message",)),
    Difference("delete options must be delete options", 6, _TEXT, at=("body.message",)),
    Difference(
        "what only the server may say is kept at an update", 4, _VALUE, at=("body.details.causes.0.message",)
    ),
    Difference(
        "owner references must be whole, and one controller is enough",
        3,
        _VALUE,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference(
        "owner references must be whole, and one controller is enough",
        4,
        _VALUE,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference(
        "finalizers must be qualified names", 4, _VALUE, at=("body.details.causes.0.message", "body.message")
    ),
    Difference(
        "a field manager has a name of printable characters",
        2,
        _VALUE,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference(
        "a disruption budget must be valid", 1, _VALUE, at=("body.details.causes.0.message", "body.message")
    ),
    Difference(
        "a job gets its defaults, selector and labels and must be valid",
        12,
        _VALUE,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference(
        "of a stateful set only some of the spec may change",
        5,
        _VALUE,
        at=("body.details.causes.0.message", "body.message"),
        minor="1.37",
    ),
    Difference(
        "a controller revision's data never change",
        3,
        _VALUE,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference(
        "a service gets its defaults and an address",
        7,
        _VALUE,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference(
        "endpoints and slices of them", 5, _VALUE, at=("body.details.causes.0.message", "body.message")
    ),
    Difference(
        "a definition keeps its group and scope",
        6,
        _VALUE,
        at=("body.details.causes.0.message", "body.message"),
    ),
    Difference("a definition must be valid", 4, _VALUE, at=("body.details.causes.0.message", "body.message")),
    Difference("a definition must be valid", 5, _VALUE, at=("body.details.causes", "body.message")),
    Difference("a definition must be valid", 6, _VALUE, at=("body.details.causes.0.message", "body.message")),
    Difference(
        "a schema must be structural", 6, _VALUE, at=("body.details.causes.0.message", "body.message")
    ),
    Difference("a PUT of a kind that may be created so creates it", 4, _NULL, at=("body.rules",)),
    Difference("other kinds are shown as tables", 22, _NULL, at=("body.rules",)),
    Difference("a failure policy must be one", 15, _NULL, at=("body.spec.podFailurePolicy.rules",)),
    Difference("names must be names", 8, _WARN, at=("headers",)),
    Difference("a body that is no JSON is a bad request", 3, _NULLBODY),
    Difference("a field said twice is ignored, warned about or refused", 1, _TWICE),
    Difference("a field said twice is ignored, warned about or refused", 2, _TWICE),
    Difference("a JSON patch that fails changes nothing", 8, _POINTER),
    Difference("a streamed list ends with a bookmark", 3, _BOOKMARK),
    Difference("a streamed list ends with a bookmark", 7, _BOOKMARK),
    Difference(
        "a job gets its defaults, selector and labels and must be valid",
        8,
        _JOB,
        at=("body.details.causes", "body.message"),
    ),
    Difference(
        "events are kept in both groups",
        2,
        _EVENTS,
        at=("body.reportingController", "body.reportingInstance"),
    ),
    Difference("events are kept in both groups", 8, _EVENTS, at=("body.details.group", "body.message")),
    Difference("endpoints and slices of them", 2, _ENDPOINTS),
    Difference(
        "endpoints and slices of them", 3, _CASCADE, at=("body.metadata.resourceVersion", "body.metadata.uid")
    ),
    Difference(
        "a namespace has a finalizer, a phase and a label of its name",
        7,
        _CASCADE,
        at=("body.metadata.resourceVersion",),
    ),
    Difference("a cluster-wide custom resource has no namespace", 5, _PLAIN),
    Difference("a schema must be structural", 8, _SCHEMA, at=("body.details.causes", "body.message")),
    Difference("a schema must be structural", 12, _SCHEMA, at=("body.details.causes", "body.message")),
    Difference("workloads are shown as tables", 9, _DAEMON, at=("body.rows.0.object.metadata.annotations",)),
    Difference("metadata can be had alone", 6, _FORM),
    Difference("metadata can be had alone", 7, _FORM),
    Difference(
        "a namespace has a finalizer, a phase and a label of its name",
        5,
        _NOOP,
        at=("body.metadata.resourceVersion",),
    ),
    *(
        Difference(
            "a pod is resized by its own endpoint",
            step,
            why,
            at=("body.metadata.resourceVersion",),
            minor="1.37",
        )
        for step, why in ((3, _NOOP), (4, _CASCADE), (9, _CASCADE), (10, _CASCADE), (11, _CASCADE))
    ),
    Difference("media types that are not known are refused", 3, _OFFERS, at=("body.message",)),
    Difference("media types that are not known are refused", 4, _OFFERS, at=("body.details", "body.message")),
)

MINORS: Final = (
    MinorsDiffer("Pods have a generation.", r"metadata\.generation$", is_followed=True),
    MinorsDiffer(
        "Templates are stored without a creationTimestamp of null.", r"creationTimestamp$", is_followed=True
    ),
    MinorsDiffer(
        "Error texts show values as JSON instead of in Go's format, some have other words or another place, and "
        "each error is reported once instead of twice.",
        r"^body\.(message$|details\.causes|details\.kind$)",
    ),
    MinorsDiffer("A resize policy gets no default.", r"resizePolicy$", is_followed=True),
    MinorsDiffer(
        "A resize may not change the policy, changes metadata, and is not proposed in the status.",
        r".",
        case="resize",
        is_followed=True,
    ),
    MinorsDiffer(
        "The error of a resize describes the differences in other words.",
        r"^body\.(message$|details\.causes)",
        case="resize",
    ),
    MinorsDiffer(
        "A resize policy follows from the defaults of a LimitRange.",
        r"resizePolicy$",
        case="a limit range gives",
    ),
    MinorsDiffer(
        "An applied item that lacks one of several keys is validated by the schema.",
        r"^(status|body\.(code|details|reason))$",
        case="lists and maps of custom resources",
    ),
    MinorsDiffer(
        "An object whose conversion fails is called corrupt.",
        r"^body\.(message|details|reason)$",
        case="conversion",
    ),
    MinorsDiffer(
        "A change that cannot be converted to the version of an owner keeps all owners.",
        r".",
        case="owners in a version",
    ),
    MinorsDiffer(
        "maxUnavailable of a StatefulSet has a default.",
        r"rollingUpdate\.maxUnavailable$",
        is_followed=True,
    ),
    MinorsDiffer(
        "The revisionHistoryLimit of a StatefulSet may change, and an error names each field that cannot.",
        r".",
        case="another number of revisions",
        is_followed=True,
    ),
    MinorsDiffer(
        "The target of an autoscaler must be in a group.",
        r".",
        case="behavior and target",
        is_followed=True,
    ),
    MinorsDiffer("A warning reports that Endpoints are deprecated.", r"^headers(\.warning)?$"),
    MinorsDiffer("Services may have names that begin with a digit.", r".", case="names must be names"),
    MinorsDiffer(
        "Options that cannot be read result in a 400 with a reason instead of a 500.",
        r"^(status|body\.(code|reason))$",
        case="options",
    ),
    MinorsDiffer(
        "A pod that gets a deadline later is charged to the quotas it then belongs to.",
        r".",
        case="a pod that gets a deadline comes under another quota",
    ),
    MinorsDiffer("Columns of some tables.", r"(columnDefinitions(\.\d+\.name)?|cells(\.\d+)?)$"),
    MinorsDiffer(
        "The bookmark after a streamed list contains no empty list.", r"initial-events-list-blueprint$"
    ),
)


def covered(case: str, step: int, minor: str) -> tuple[Difference, ...]:
    """The differences listed for a step of the sandbox of a minor."""
    return tuple(
        each for each in DIFFERENCES if (each.case, each.step) == (case, step) and each.minor in ("", minor)
    )


def explained(case: str, path: str) -> bool:
    """Whether a difference between the minors at this place is listed."""
    return any(each.covers(case, path) for each in MINORS)


def may_follow_either(case: str, path: str) -> bool:
    """Whether the sandbox of one minor may respond as the other minor does at this place."""
    notes = [each for each in MINORS if each.covers(case, path)]
    if any(each.case and not each.is_followed for each in notes):
        return True
    return bool(notes) and not any(each.is_followed for each in notes)


def documented(differences: Iterable[Difference] | None = None) -> str:
    """The list as it is in docs/sandbox.md: each reason with its cases."""
    reasons: dict[str, dict[str, None]] = {}
    for each in DIFFERENCES if differences is None else differences:
        reasons.setdefault(each.why, {})[each.case] = None
    return "".join(
        f"- {why}\n" + "".join(f"  - {case}\n" for case in cases) for why, cases in reasons.items()
    )
