"""Rules of ValidatingAdmissionPolicies and their bindings. apiserver/policies enforces them.

    a spec as sent ──▶ check_policy(), check_policy_binding() ──▶ Causes

Pure. An expression that cannot be evaluated here is rejected when the policy is written, and the message names the
missing feature. A stored policy is therefore never ignored.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
    make_invalid_shown_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import Causes, check_one_of, check_qualified_name, check_selector
from pykruise.kube.pod_rules.names import is_dns1035_label, is_dns1123_subdomain
from pykruise.sandbox.apiserver.builtin.webhook_configurations import (
    check_expression,
    check_match_conditions,
    check_rule_with_operations,
)
from pykruise.sandbox.apiserver.custom.expressions import RESERVED_WORDS
from pykruise.sandbox.apiserver.policies.reading import list_used_variables, names_of

Doc = Mapping[str, Any]

_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_MOST_ANNOTATIONS: Final = 20
_LONGEST_VALUE: Final = 5 * 1024


# --- policies ---


def check_policy(spec: Doc, name: str) -> Causes:
    """Check the spec of the policy with this name."""
    yield from check_one_of(spec.get("failurePolicy"), "spec.failurePolicy", ("Fail", "Ignore"))
    if (kind := spec.get("paramKind")) is not None:
        yield from _check_param_kind(kind, "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield make_required_error("spec.matchConstraints")
    else:
        yield from _check_match_resources(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            yield make_required_error("spec.matchConstraints.resourceRules")
    conditions, inside = names_of(spec)
    yield from check_match_conditions(spec.get("matchConditions") or (), "spec.matchConditions", conditions)
    known: set[str] = set()
    for index, variable in enumerate(spec.get("variables") or ()):
        yield from _check_variable(variable, f"spec.variables[{index}]", inside, frozenset(known))
        known.add(variable.get("name") or "")
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        for field in ("validations", "auditAnnotations"):
            detail = "validations or auditAnnotations must contain at least one item"
            yield make_required_error(f"spec.{field}", detail)
    for index, validation in enumerate(validations):
        yield from _check_validation(validation, f"spec.validations[{index}]", inside, frozenset(known))
    yield from _check_annotations(annotations, name, inside, frozenset(known))


def _check_param_kind(doc: Doc, path: str) -> Causes:
    api_version, kind = doc.get("apiVersion") or "", doc.get("kind") or ""
    group, _, version = api_version.rpartition("/")
    if not api_version:
        yield make_required_error(f"{path}.apiVersion")
    elif "/" in group:
        yield make_invalid_error(
            f"{path}.apiVersion", api_version, f"unexpected GroupVersion string: {api_version}"
        )
    else:
        if group and (wrong := is_dns1123_subdomain(group)):
            yield make_invalid_error(f"{path}.apiVersion", group, ",".join(wrong))
        if not version:
            yield make_invalid_error(f"{path}.apiVersion", api_version, "version must be specified")
        elif wrong := is_dns1035_label(version):
            yield make_invalid_error(f"{path}.apiVersion", version, ",".join(wrong))
    if not kind:
        yield make_required_error(f"{path}.kind")
    elif wrong := is_dns1035_label(kind.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        yield make_invalid_error(f"{path}.kind", kind, detail)


def _check_match_resources(doc: Doc, path: str) -> Causes:
    yield from check_one_of(doc.get("matchPolicy"), f"{path}.matchPolicy", ("Equivalent", "Exact"))
    for field in ("namespaceSelector", "objectSelector"):
        yield from check_selector(doc.get(field), f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(doc.get(field) or ()):
            here = f"{path}.{field}[{index}]"
            names = rule.get("resourceNames") or ()
            for place, name in enumerate(names):
                yield from _check_path_segment(name, f"{here}.resourceNames[{place}]")
                if name in names[:place]:
                    yield make_duplicate_error(f"{here}.resourceNames[{place}]", name)
            yield from check_rule_with_operations(rule, here)


def _check_path_segment(name: str, path: str) -> Causes:
    if name in (".", ".."):
        yield make_invalid_error(path, name, f"may not be '{name}'")
    for sign in ("/", "%"):
        if sign in name:
            yield make_invalid_error(path, name, f"may not contain '{sign}'")


def _check_variable(doc: Doc, path: str, names: frozenset[str], known: frozenset[str]) -> Causes:
    name = doc.get("name") or ""
    if not name.strip():
        yield make_required_error(f"{path}.name", "name is not specified")
    elif not re.fullmatch(r"[_a-zA-Z][_a-zA-Z0-9]*", name) or name in RESERVED_WORDS:
        yield make_invalid_error(f"{path}.name", name, "must be a valid CEL identifier")
    text = doc.get("expression") or ""
    if not text.strip():
        yield make_required_error(f"{path}.expression", "expression is not specified")
    else:
        yield from _check_own_expression(text, f"{path}.expression", names, known)


def _check_own_expression(text: str, path: str, names: frozenset[str], known: frozenset[str]) -> Causes:
    """Check an expression that may use the variables that precede it."""
    causes = list(check_expression(text, path, names))
    yield from causes
    if causes:
        return
    unknown = [name for name in list_used_variables(text) if name not in known]
    if unknown:
        detail = "\n".join(_describe_undefined_names(text, unknown))
        yield make_invalid_error(path, text, f"compilation failed: {detail}")


def _describe_undefined_names(text: str, names: Sequence[str]) -> Iterator[str]:
    """Yield an error for each undefined name, with its position, in cel-go's words."""
    for name in names:
        match = re.search(rf"variables\s*(\.)\s*{name}\b", text)
        column = match.start(1) if match else 0
        yield f"ERROR: <input>:1:{column + 1}: undefined field '{name}'\n | {text}\n | {'.' * column}^"


def _check_validation(doc: Doc, path: str, names: frozenset[str], known: frozenset[str]) -> Causes:
    text, message = doc.get("expression") or "", doc.get("message") or ""
    if not text.strip():
        yield make_required_error(f"{path}.expression", "expression is not specified")
    else:
        yield from _check_own_expression(text, f"{path}.expression", names, known)
    said = doc.get("messageExpression") or ""
    if said and not said.strip():
        yield make_invalid_error(f"{path}.messageExpression", said, "must be non-empty if specified")
    elif said:
        yield from _check_own_expression(said, f"{path}.messageExpression", names, known)
    if message and not message.strip():
        yield make_invalid_error(f"{path}.message", message, "must be non-empty if specified")
    elif re.search(r"[\n\r]", message.strip()):
        yield make_invalid_error(f"{path}.message", message, "must not contain line breaks")
    reason = doc.get("reason")
    if reason is not None and reason not in _REASONS:
        yield make_not_supported_error(f"{path}.reason", reason, _REASONS)


def _check_annotations(
    annotations: Sequence[Doc], policy: str, names: frozenset[str], known: frozenset[str]
) -> Causes:
    path = "spec.auditAnnotations"
    if len(annotations) > _MOST_ANNOTATIONS:
        detail = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        yield make_invalid_shown_error(path, "[]admissionregistration.AuditAnnotation{…}", detail)
    for index, doc in enumerate(annotations):
        here, key = f"{path}[{index}]", doc.get("key") or ""
        yield from check_qualified_name(f"{policy}/{key}", f"{here}.key")
        text = doc.get("valueExpression") or ""
        if not text.strip():
            yield make_required_error(f"{here}.valueExpression", "valueExpression is not specified")
        elif len(text.strip()) > _LONGEST_VALUE:
            yield make_required_error(
                f"{here}.valueExpression", f"must not exceed {_LONGEST_VALUE} bytes in length"
            )
        else:
            yield from _check_own_expression(text, f"{here}.valueExpression", names, known)
        if any((each.get("key") or "") == key for each in annotations[:index]):
            yield make_duplicate_error(f"{here}.key", key)


# --- bindings ---


def check_policy_binding(spec: Doc) -> Causes:
    """Check the spec of a binding."""
    policy = spec.get("policyName") or ""
    if not policy:
        yield make_required_error("spec.policyName")
    for message in is_dns1123_subdomain(policy) if policy else ():
        yield make_invalid_error("spec.policyName", policy, message)
    if (ref := spec.get("paramRef")) is not None:
        yield from _check_param_ref(ref, "spec.paramRef")
    if (where := spec.get("matchResources")) is not None:
        yield from _check_match_resources(where, "spec.matchResources")
    yield from _check_actions(spec.get("validationActions") or (), "spec.validationActions")


def _check_param_ref(ref: Doc, path: str) -> Causes:
    name, selector = ref.get("name") or "", ref.get("selector")
    both = "name and selector are mutually exclusive"
    if name:
        yield from _check_path_segment(name, f"{path}.name")
        if selector is not None:
            yield make_forbidden_error(f"{path}.name", both)
    if selector is not None:
        yield from check_selector(selector, f"{path}.selector")
        if name:
            yield make_forbidden_error(f"{path}.selector", both)
    if not name and selector is None:
        yield make_required_error(path, "one of name or selector must be specified")
    yield from check_one_of(
        ref.get("parameterNotFoundAction"), f"{path}.parameterNotFoundAction", ("Deny", "Allow")
    )


def _check_actions(actions: Sequence[str], path: str) -> Causes:
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield make_not_supported_error(f"{path}[{index}]", action, _ACTIONS)
        if action in actions[:index]:
            yield make_duplicate_error(f"{path}[{index}]", action)
    if {"Deny", "Warn"} <= set(actions):
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)"
        )
        yield make_invalid_shown_error(path, orjson.dumps(actions).decode(), detail)
    if not actions:
        yield make_required_error(path, "at least one validation action is required")
