"""Causes of rejected writes, and the actions by which a person removes them.

KubeError of a write ──▶ explain_error()   ──▶ code, remedy
message of an event  ──▶ explain_refusal() ──▶ code, remedy
message of a condition or an event, with its remedy ──▶ split_remedy() ──▶ the cause, the remedy

Pure. API servers return status code 403 for many causes, which only the text of the message distinguishes.
"""

import re
from collections.abc import Iterator
from typing import Final

from pykruise.kube.errors import (
    DISRUPTION_BUDGET,
    REMEDY,
    ApiError,
    ForbiddenError,
    InternalError,
    InvalidError,
    KubeError,
    ServerTimeoutError,
    ServerUnavailableError,
    TransportError,
)
from pykruise.runtime.reasons import NOTHING, WriteFault

__all__ = [
    "SHORTER_NAME",
    "cut_remedy",
    "explain_error",
    "explain_refusal",
    "explain_unreached_webhook",
    "find_exceeded_quota",
    "find_refused_fields",
    "find_unreached_webhook",
    "list_refused_parts",
    "split_remedy",
]

SHORTER_NAME: Final = (
    "names that are derived from the object's name are too long: create the object again with a shorter name"
)
_CORRECT: Final = "change the object's spec so that the policy allows the write, or change the policy"
_FIT_LIMITS: Final = (
    "request what the LimitRange allows, or change the LimitRange (kubectl edit limitrange{place})"
)
_UNREACHABLE: Final = (
    "make the server of this webhook respond, or correct or delete the webhook configuration"
)
_NAMED_UNREACHABLE: Final = "make the server of webhook {name} respond, or correct or delete {configuration}"
_ANY_CONFIGURATION: Final = (
    "the webhook configuration that contains it (kubectl get"
    " validatingwebhookconfigurations,mutatingwebhookconfigurations)"
)
_CORRECT_CAUSE: Final = "correct what the message of the webhook names"
_ALLOW: Final = "change the object so that the write is allowed, or change what rejects the write"
_CORRECT_SPEC: Final = "correct what the API server rejects in the object's spec"
_RECOVERS: Final = "no action is needed if the API server and its webhooks recover"
_CORRECT_WRITE: Final = "correct what the API server rejects"
_WAIT_FOR_PODS: Final = "wait until more pods of the budget serve, or change the budget to allow more"

_GATE_OFF: Final = r"feature-gate (?P<name>[\w-]+) is not enabled"
"""Message of the manager's own webhooks about an object whose feature gate is off."""

_UNREACHED: Final = r'failed calling webhook "(?P<name>[^"]+)"'

_FORBIDDING: Final[tuple[tuple[str, WriteFault, str], ...]] = (
    (
        r"exceeded quota: (?P<name>[^\s,]+), requested",
        WriteFault.QUOTA,
        "raise the ResourceQuota (kubectl edit resourcequota{place} {name}), or free resources that it counts",
    ),
    ("exceeded quota", WriteFault.QUOTA, "raise the ResourceQuota, or free resources that it counts"),
    (
        r"failed quota: (?P<name>[^\s:]+)",
        WriteFault.QUOTA,
        "set in {template} what the ResourceQuota requires (kubectl describe resourcequota{place} {name}), or add a"
        " LimitRange with defaults",
    ),
    (
        "enough allocatable resources",
        WriteFault.WRITE_FAILED,
        "lower the requests of the pod, or make room on the node",
    ),
    ("being terminated", WriteFault.WRITE_FAILED, "no action is needed: the namespace is being deleted"),
    (_UNREACHED, WriteFault.WEBHOOK, _NAMED_UNREACHABLE),
    (
        _GATE_OFF,
        WriteFault.WEBHOOK,
        "turn the feature gate {name} of the manager on: add {name}=true to --feature-gates (of Deployment"
        " kruise-controller-manager, or of pykruise up)",
    ),
    (
        "webhook",
        WriteFault.WEBHOOK,
        "change the object so that the webhook allows the write, or have the webhook changed",
    ),
    (
        r'pods "[^"]*" is forbidden: .*AdmissionPolicy',
        WriteFault.POLICY,
        "change {template} so that the policy allows its pods, or change the policy",
    ),
    ("AdmissionPolicy", WriteFault.POLICY, _CORRECT),
    (" usage per ", WriteFault.POLICY, _FIT_LIMITS),
    ("limit to request ratio", WriteFault.POLICY, _FIT_LIMITS),
    (
        r"no PriorityClass with name (?P<name>\S+) was found",
        WriteFault.POLICY,
        "create PriorityClass {name} (kubectl create priorityclass {name} --value=NUMBER), or correct priorityClassName"
        " in {template}",
    ),
    ("PriorityClass", WriteFault.POLICY, "correct priorityClassName or priority in {template}"),
    (
        r'RuntimeClass "(?P<name>[^"]+)" not found',
        WriteFault.POLICY,
        "have an administrator of the nodes create RuntimeClass {name}, or correct runtimeClassName in {template}"
        " (kubectl get runtimeclasses)",
    ),
    ("RuntimeClass", WriteFault.POLICY, "correct overhead or runtimeClassName in {template}"),
    (
        r"service account (?P<space>[^\s/]+)/(?P<name>[^\s:]+): .*not found",
        WriteFault.POLICY,
        "create ServiceAccount {name} (kubectl create serviceaccount -n {space} {name}), or correct"
        " serviceAccountName in {template}",
    ),
    ("service account", WriteFault.POLICY, "correct serviceAccountName in {template}"),
    (
        r'violates PodSecurity "baseline:',
        WriteFault.POLICY,
        "correct {template}, or have the level of the namespace lowered (kubectl label namespace {namespace}"
        " --overwrite pod-security.kubernetes.io/enforce=privileged)",
    ),
    (
        "violates PodSecurity",
        WriteFault.POLICY,
        "correct {template}, or have the level of the namespace lowered (kubectl label namespace {namespace}"
        " --overwrite pod-security.kubernetes.io/enforce=LEVEL)",
    ),
    ("cannot ", WriteFault.FORBIDDEN, "grant the manager the missing permission (pykruise doctor names it)"),
)
"""Patterns of the messages of API servers' admission plugins and of RBAC, each with the code and the remedy, which
contains the groups of the pattern and the namespace of the write.
"""

_FIELDS: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    ("PriorityClass", frozenset({"priorityClassName", "priority"})),
    ("RuntimeClass", frozenset({"runtimeClassName", "overhead"})),
    ("service account", frozenset({"serviceAccountName", "serviceAccount"})),
    (
        r"exceeded quota|failed quota| usage per |limit to request ratio",
        frozenset({"containers", "initContainers", "resources"}),
    ),
)
"""Patterns of messages about rejected pods, each with the fields of the pod's spec that the remedy corrects."""

_OTHERS: Final = (
    *(
        SHORTER_NAME,
        _CORRECT,
        _UNREACHABLE,
        _CORRECT_CAUSE,
        _ALLOW,
        _CORRECT_SPEC,
        _RECOVERS,
        _CORRECT_WRITE,
        _WAIT_FOR_PODS,
        NOTHING,
    ),
)


_TEMPLATE: Final = "the pod template"
_PODS: Final = "the spec of the pods"
"""Name of the rejected part in conditions and events. The manager does not know whether the template, a SidecarSet or
the patch of a subset contains this part.
"""


def explain_refusal(
    message: str, *, namespace: str, template: str = _TEMPLATE
) -> tuple[WriteFault, str] | None:
    """Return the code and the remedy of a response with status code 403, from its message; None if the message is
    unknown. `namespace`: namespace of the rejected write; empty if it has none. `template`: name of the part that
    defines the rejected pods.
    """
    return next(_explain_each(message, namespace, template), None)


def find_exceeded_quota(message: str) -> tuple[str, dict[str, str]] | None:
    """Return the name of the ResourceQuota that rejected a write, and what the write requested; None if the message
    names no quota.
    """
    match = re.search(r"exceeded quota: (?P<name>[^\s,]+), requested: (?P<requested>[^\s]+), used: ", message)
    if match is None:
        return None
    amounts = (part.partition("=") for part in match["requested"].split(","))
    return match["name"], {resource: amount for resource, _, amount in amounts}


def find_refused_fields(message: str) -> frozenset[str]:
    """Return the fields of a rejected pod's spec that the remedy of the message corrects; empty if they are unknown."""
    return next((fields for pattern, fields in _FIELDS if re.search(pattern, message)), frozenset())


def _explain_each(
    message: str, namespace: str, template: str = _TEMPLATE
) -> Iterator[tuple[WriteFault, str]]:
    for pattern, fault, remedy in _FORBIDDING:
        if match := re.search(pattern, message):
            known = remedy if namespace else _NAMESPACED_COMMAND.sub("", remedy)
            yield (
                fault,
                known.format(
                    place=f" -n {namespace}",
                    namespace=namespace,
                    template=template,
                    configuration=_ANY_CONFIGURATION,
                    **match.groupdict(),
                ),
            )


def list_refused_parts(message: str) -> list[tuple[str, str]]:
    """Return the parts of a pod that the API server rejects, each with its kind (`container` or `volume`) and its name:
    containers that lack resources which a ResourceQuota requires, or parts that violate the PodSecurity level of the
    namespace. Empty for other messages.
    """
    if "violates PodSecurity" in message:
        parts = [
            (match["kind"], name)
            for match in _INSECURE.finditer(message)
            for name in re.findall(r'"([^"]+)"', match["names"])
        ]
    else:
        parts = [
            ("container", name)
            for match in _UNSPECIFIED.findall(message)
            for name in match.split(",")
            if name
        ]
    return list(dict.fromkeys(parts))


_UNSPECIFIED: Final = re.compile(r"[a-z]\S* for: ([a-z0-9,-]+)")
_INSECURE: Final = re.compile(r'\b(?P<kind>container|volume)s? (?P<names>"[^"]+"(?:, "[^"]+")*)')

_NAMESPACED_COMMAND: Final = re.compile(r" \([^()]*\{(place|namespace)\}[^()]*\)")
"""A command that needs the namespace of the write."""


def split_remedy(message: str, *, namespace: str) -> tuple[str, str]:
    """Return the cause and the remedy in a message of `Reason.full_message`; the remedy is empty when the message has
    none, or when no action is needed. The remedy names the pod template, where the message says "the spec of the pods".
    `namespace`: of the rejected write.
    """
    for template in (_PODS, _TEMPLATE):
        for _, remedy in _explain_each(message, namespace, template):
            if (words := cut_remedy(message, remedy)) != message:
                known = explain_refusal(words, namespace=namespace)
                return words, remedy if known is None else known[1]
    for remedy in _OTHERS:
        if (words := cut_remedy(message, remedy)) != message:
            return words, "" if remedy == NOTHING else remedy
    return message, ""


def cut_remedy(message: str, remedy: str) -> str:
    """Return the message without this remedy, which `Reason.full_message` has appended."""
    return message.removesuffix(f"; {remedy}")


def find_unreached_webhook(message: str) -> str:
    """Return the name of the webhook that the API server cannot reach; empty if the message names none."""
    unreached = re.search(_UNREACHED, message)
    return "" if unreached is None else unreached["name"]


def explain_unreached_webhook(name: str, *, configuration: str = _ANY_CONFIGURATION) -> str:
    """Return the remedy of a write that failed because the API server cannot reach this webhook. `configuration`: the
    object that configures the webhook, in words.
    """
    return _NAMED_UNREACHABLE.format(name=name, configuration=configuration)


def _explain_webhook(message: str) -> str:
    """Return the remedy of a write that failed with a server error because of a webhook."""
    if name := find_unreached_webhook(message):
        return explain_unreached_webhook(name)
    return _CORRECT_CAUSE if "denied the request" in message else _UNREACHABLE


def explain_error(error: KubeError, *, unknown: WriteFault, namespace: str) -> tuple[WriteFault, str]:
    """Return the code and the action that a person must take. The write itself is retried automatically. `unknown`:
    code of a response with status code 403 and another text. `namespace`: of the rejected write.
    """
    text = str(error)
    causes = {cause.reason: cause.message for cause in error.causes} if isinstance(error, ApiError) else {}
    if DISRUPTION_BUDGET in causes:
        return WriteFault.DISRUPTION_REFUSED, causes.get(REMEDY, _WAIT_FOR_PODS)
    if isinstance(error, ForbiddenError) or re.search(_GATE_OFF, text):
        known = explain_refusal(text, namespace=namespace, template=_PODS)
        if known is not None:
            return known
    code = WriteFault.WRITE_FAILED
    if "webhook" in text:
        code = WriteFault.WEBHOOK
    elif "AdmissionPolicy" in text:
        code = WriteFault.POLICY
    elif isinstance(error, ForbiddenError):
        code = unknown
    match error:
        case ForbiddenError() | InvalidError() if code == WriteFault.POLICY:
            known = explain_refusal(text, namespace=namespace, template=_PODS)
            return code, _CORRECT if known is None or known[0] != code else known[1]
        case ForbiddenError():
            return code, _ALLOW
        case InvalidError():
            return code, _CORRECT_SPEC
        case InternalError() | ServerUnavailableError() | ServerTimeoutError() if code == WriteFault.WEBHOOK:
            return code, _explain_webhook(text)
        case TransportError() | InternalError() | ServerUnavailableError() | ServerTimeoutError():
            return code, _RECOVERS
    return code, _CORRECT_WRITE
