"""Validation of the restart of single containers of a pod: `restartPolicy` and `restartPolicyRules`.

    a container + Release ──▶ check_restarts() (regular), check_init_restarts() ──▶ Causes

Pure; pods.py calls these checks. This is the rule of Kubernetes' validateContainerRestartPolicy.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.pod_rules.field_errors import (
    make_forbidden_error,
    make_not_supported_error,
    make_required_error,
    make_too_many_error,
)
from pykruise.kube.pod_rules.field_rules import Causes
from pykruise.kube.schemas.releases import Release

__all__ = ["check_init_restarts", "check_restarts"]

Doc = Mapping[str, Any]
_POLICIES: Final = ("Always", "Never", "OnFailure")
_MOST_RULES: Final = 20
_MOST_EXIT_CODES: Final = 255


def check_restarts(container: Doc, path: str, release: Release) -> Causes:
    """Yield the errors of a regular container."""
    if release.has("ContainerRestartRules"):
        yield from _check_policy(container, path, release)
    elif container.get("restartPolicy") is not None:
        yield make_forbidden_error(f"{path}.restartPolicy", "may not be set for non-init containers")


def check_init_restarts(container: Doc, path: str, release: Release) -> Causes:
    """Yield the errors of an init container; with the policy Always it is a sidecar."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if rules:
            yield make_required_error(f"{path}.restartPolicy", _NEEDS_POLICY)
    elif not release.has("ContainerRestartRules"):
        if policy != "Always":
            yield make_not_supported_error(f"{path}.restartPolicy", policy, ("Always",))
    elif policy != "Always" or release.has("RestartAllContainersOnContainerExits"):
        yield from _check_policy(container, path, release)
    elif rules:
        yield make_forbidden_error(
            f"{path}.restartPolicyRules",
            "restartPolicyRules are not allowed for init containers with restart policy Always",
        )


_NEEDS_POLICY: Final = "must specify restartPolicy when restart rules are used"


def _check_policy(container: Doc, path: str, release: Release) -> Causes:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if not rules:
            return
        yield make_required_error(f"{path}.restartPolicy", _NEEDS_POLICY)
    elif policy not in _POLICIES:
        yield make_not_supported_error(f"{path}.restartPolicy", policy, _POLICIES)
    if len(rules) > _MOST_RULES:
        yield make_too_many_error(f"{path}.restartPolicyRules", len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        yield from _check_rule(rule, f"{path}.restartPolicyRules[{index}]", release)


def _check_rule(rule: Doc, path: str, release: Release) -> Causes:
    has_all = release.has("RestartAllContainersOnContainerExits")
    actions = ("Restart", "RestartAllContainers") if has_all else ("Restart",)
    if rule.get("action") not in actions:
        yield make_not_supported_error(f"{path}.action", rule.get("action") or "", actions)
    codes = rule.get("exitCodes")
    if codes is None:
        yield make_required_error(f"{path}.exitCodes", "must be specified")
        return
    if codes.get("operator") not in ("In", "NotIn"):
        yield make_not_supported_error(
            f"{path}.exitCodes.operator", codes.get("operator") or "", ("In", "NotIn")
        )
    if len(codes.get("values") or ()) > _MOST_EXIT_CODES:
        yield make_too_many_error(f"{path}.exitCodes.values", len(codes["values"]), _MOST_EXIT_CODES)
