"""Rules of the kinds that select writes for admission: webhook configurations and admission policies.

    an object as sent ──▶ …Strategy ──▶ the object as stored, or Causes

Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_invalid_error,
    make_invalid_shown_error,
    make_not_supported_error,
    make_required_error,
    make_too_many_error,
)
from pykruise.kube.pod_rules.field_rules import (
    Causes,
    check_one_of,
    check_qualified_name,
    check_selector,
)
from pykruise.kube.pod_rules.names import is_dns1035_label, is_dns1123_subdomain
from pykruise.kube.schemas.builtin_types import Decoder
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.builtin.strategy import BuiltinStrategy
from pykruise.sandbox.apiserver.custom.expressions import (
    CONDITION_VARIABLES,
    ExpressionError,
    compile_expression,
)

Doc = Mapping[str, Any]


class WebhookConfigurationStrategy(BuiltinStrategy):
    """Mutating and validating webhook configurations."""

    tracks_generation = True
    allows_unconditional_update = False

    def __init__(self, decoder: Decoder | None = None, *, mutating: bool = False) -> None:
        super().__init__(decoder)
        self._mutating = mutating

    def default(self, doc: Document) -> Document:
        for webhook in doc.get("webhooks") or ():
            webhook.setdefault("failurePolicy", "Fail")
            webhook.setdefault("matchPolicy", "Equivalent")
            webhook.setdefault("namespaceSelector", {})
            webhook.setdefault("objectSelector", {})
            webhook.setdefault("timeoutSeconds", 10)
            if self._mutating:
                webhook.setdefault("reinvocationPolicy", "Never")
            for rule in webhook.get("rules") or ():
                rule.setdefault("scope", "*")
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_webhooks(doc.get("webhooks") or ()))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        return list(_check_webhooks(new.get("webhooks") or ()))


def _check_webhooks(webhooks: Sequence[Doc]) -> Causes:
    names: set[str] = set()
    for index, webhook in enumerate(webhooks):
        path, name = f"webhooks[{index}]", webhook.get("name") or ""
        yield from _check_webhook(webhook, path)
        if name in names:
            yield make_duplicate_error(f"{path}.name", name)
        elif name:
            names.add(name)


def _check_webhook(webhook: Doc, path: str) -> Causes:
    yield from _check_full_name(webhook.get("name") or "", f"{path}.name")
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from check_rule_with_operations(rule, f"{path}.rules[{index}]")
    for field, allowed in (
        ("failurePolicy", ("Fail", "Ignore")),
        ("matchPolicy", ("Equivalent", "Exact")),
        ("reinvocationPolicy", ("IfNeeded", "Never")),
    ):
        yield from check_one_of(webhook.get(field), f"{path}.{field}", allowed, needed=False)
    effects = webhook.get("sideEffects")
    if effects is None:
        yield make_required_error(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif effects not in ("None", "NoneOnDryRun"):
        yield make_not_supported_error(f"{path}.sideEffects", effects, ("None", "NoneOnDryRun"))
    timeout = webhook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield make_invalid_error(f"{path}.timeoutSeconds", timeout, detail)
    for field in ("namespaceSelector", "objectSelector"):
        yield from check_selector(webhook.get(field), f"{path}.{field}")
    yield from check_client_config(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    conditions = webhook.get("matchConditions") or ()
    yield from check_match_conditions(conditions, f"{path}.matchConditions", CONDITION_VARIABLES)
    yield from _check_review_versions(
        webhook.get("admissionReviewVersions") or (), f"{path}.admissionReviewVersions"
    )


def check_match_conditions(conditions: Sequence[Doc], path: str, variables: frozenset[str]) -> Causes:
    """Check `matchConditions`: their names, and their expressions, which may use these variables."""
    if len(conditions) > _MOST_CONDITIONS:
        yield make_too_many_error(path, len(conditions), _MOST_CONDITIONS)
    for index, condition in enumerate(conditions):
        here, name = f"{path}[{index}]", condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        if not expression:
            yield make_required_error(f"{here}.expression")
        else:
            yield from check_expression(expression, f"{here}.expression", variables)
        if not name:
            yield make_required_error(f"{here}.name")
            continue
        yield from check_qualified_name(name, f"{here}.name")
        if any(each.get("name") == name for each in conditions[:index]):
            yield make_duplicate_error(f"{here}.name", name)


_MOST_CONDITIONS: Final = 64


def check_expression(text: str, path: str, variables: frozenset[str]) -> Causes:
    """Check that an expression, which may use these variables, can be compiled."""
    try:
        compile_expression(text, variables)
    except ExpressionError as err:
        yield make_invalid_error(path, text, f"compilation failed: {err}")


def _check_full_name(name: str, path: str) -> Causes:
    if not name:
        yield make_required_error(path)
        return
    for message in is_dns1123_subdomain(name):
        yield make_invalid_error(path, name, message)
    if name.count(".") < 2:
        yield make_invalid_error(
            path, name, "should be a domain with at least three segments separated by dots"
        )


def check_rule_with_operations(rule: Doc, path: str) -> Causes:
    """Check the parts of a rule: operations, groups, versions, resources, scope."""
    operations = rule.get("operations") or ()
    if not operations:
        yield make_required_error(f"{path}.operations")
    for index, operation in enumerate(operations):
        allowed = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
        yield from check_one_of(operation, f"{path}.operations[{index}]", allowed)
    for field in ("apiGroups", "apiVersions", "resources"):
        if not rule.get(field):
            yield make_required_error(f"{path}.{field}")
    yield from check_one_of(rule.get("scope"), f"{path}.scope", ("*", "Cluster", "Namespaced"), needed=False)


def check_client_config(config: Doc, path: str) -> Causes:
    """Check the address of a webhook: a URL or a service."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield make_required_error(path, "exactly one of url or service is required")
    elif url is not None and not url.startswith("https://"):
        scheme = url.partition("://")[0] if "://" in url else ""
        detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        yield make_invalid_error(f"{path}.url", scheme, detail)
    elif service is not None:
        for field in ("name", "namespace"):
            if not service.get(field):
                yield make_required_error(f"{path}.service.{field}", f"service {field} is required")
        yield from _check_url_path(service.get("path") or "", f"{path}.service.path")


def _check_url_path(text: str, path: str) -> Causes:
    """Check the path of a webhook that a service serves."""
    if text in ("", "/"):
        return
    if not text.startswith("/"):
        yield make_invalid_error(path, text, "must start with a '/'")
    for place, segment in enumerate(text[1:].removesuffix("/").split("/")):
        if not segment:
            yield make_invalid_error(path, text, f"segment[{place}] may not be empty")
            continue
        for message in is_dns1123_subdomain(segment):
            yield make_invalid_error(path, text, f"segment[{place}]: {message}")


def _check_review_versions(versions: Sequence[str], path: str) -> Causes:
    if not versions:
        yield make_required_error(path, "must specify one of v1, v1beta1")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield make_invalid_error(f"{path}[{index}]", version, "duplicate version")
            continue
        for message in is_dns1035_label(version):
            yield make_invalid_error(f"{path}[{index}]", version, message)
    if not {"v1", "v1beta1"} & set(versions):
        shown = f"[]string{{{', '.join(quote_text(version) for version in versions)}}}"
        yield make_invalid_shown_error(path, shown, "must include at least one of v1, v1beta1")


# --- admission policies; their checks are imported when the first policy is written ---


def _fill_match_resources(doc: Any) -> None:
    if not isinstance(doc, dict):
        return
    doc.setdefault("matchPolicy", "Equivalent")
    doc.setdefault("namespaceSelector", {})
    doc.setdefault("objectSelector", {})
    for member in ("resourceRules", "excludeResourceRules"):
        for rule in doc.get(member) or ():
            rule.setdefault("scope", "*")


class AdmissionPolicyStrategy(BuiltinStrategy):
    """ValidatingAdmissionPolicies."""

    tracks_generation = True
    has_status = True
    allows_unconditional_update = False

    def default(self, doc: Document) -> Document:
        spec = doc.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        _fill_match_resources(spec.get("matchConstraints"))
        return doc

    def prepare_create(self, doc: Document) -> Document:
        doc["status"] = {}
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        from pykruise.sandbox.apiserver.builtin.admission_policies import check_policy

        return list(check_policy(doc.get("spec") or {}, (doc.get("metadata") or {}).get("name") or ""))


class AdmissionPolicyBindingStrategy(BuiltinStrategy):
    """ValidatingAdmissionPolicyBindings."""

    tracks_generation = True
    allows_unconditional_update = False

    def default(self, doc: Document) -> Document:
        _fill_match_resources(doc.setdefault("spec", {}).get("matchResources"))
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        from pykruise.sandbox.apiserver.builtin.admission_policies import check_policy_binding

        return list(check_policy_binding(doc.get("spec") or {}))
