"""Documents that register the webhooks in API servers: webhook configurations, and `spec.conversion` of CRDs.

ReviewRules ──▶ build_configurations() ──▶ both webhook configurations, for the installation
live object + Endpoint + bundle ──▶ build_desired_webhooks()   ──▶ the desired object
live object                     ──▶ add_confirmation()  ──▶ the object for a second write
live CRD    + Endpoint + bundle ──▶ build_desired_conversion() ──▶ desired `spec.conversion`, or None: no change
                                    (webhook_plan.py decides when they are written)

Pure. Object names and the annotation `template` are OpenKruise's. The template contains all entries as installed. While
a feature is off, its entry is left out of the configuration; it is added again from the template.

During a switch, replicas of OpenKruise run beside this manager. They rewrite the entries from the template that they
know, without the paths that they do not serve. So after an installation, the live entries can be incomplete:
`_complete_entries` adds what is missing before they become the template. Both managers then use the same template.

The template never contains this program's match conditions (`CONDITIONS`), which reduce the number of reviews. So
another manager that uses the template, for example OpenKruise's, gets the webhooks as they were installed.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import orjson

from pykruise.admission.pods.chain import CONDITION
from pykruise.kube.admission import MatchCondition, ResourceRule, ReviewRule
from pykruise.kube.documents import Document, annotations_of, is_same
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import build_webhook_conversion

MUTATING_NAME: Final = "kruise-mutating-webhook-configuration"
VALIDATING_NAME: Final = "kruise-validating-webhook-configuration"

_GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = Resource(
    _GROUP, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False
)
VALIDATING: Final = Resource(
    _GROUP, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
)

CONFIGURATIONS: Final = ((MUTATING, MUTATING_NAME), (VALIDATING, VALIDATING_NAME))

TEMPLATE: Final = "template"
"""Annotation that OpenKruise defines: the entries as installed, as JSON."""

RELEASE: Final = "pykruise.io/webhooks"
"""Annotation that the installer writes: hash of the entries that it installed."""

TEMPLATE_OF: Final = "pykruise.io/template-of"
"""Annotation that the manager writes: the value of RELEASE when it stored the template. If RELEASE has another value
now, the manager stores a new template. If there is no RELEASE, another program has installed the entries, and the
manager removes this annotation.
"""

CONFIRMED: Final = "pykruise.io/confirmed"
"""Annotation that the manager writes: hash of the entries that it has written a second time; see `add_confirmation`."""

CONDITIONS: Final = frozenset({CONDITION})
"""Names of the match conditions that this program writes."""

CONVERT_PATH: Final = "/convert"


class WebhookConfigurationError(ValueError):
    """A webhook configuration cannot be reconciled. The message names the entry and the reason."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Address of the webhook server for API servers: a Service, or, if `host` is set, a URL."""

    namespace: str = "kruise-system"
    service: str = "kruise-webhook-service"
    host: str = ""
    """WEBHOOK_HOST: a DNS name or an IP address."""
    port: int = 9876
    """Port of the server. It is used only with `host`; a Service has port 443."""

    @property
    def name(self) -> str:
        """The name that the certificate must cover."""
        return self.host or f"{self.service}.{self.namespace}.svc"

    @property
    def base_url(self) -> str:
        """`https://host:port`; empty if API servers use the Service."""
        if not self.host:
            return ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}"

    def build_client_config(self, path: str, bundle: bytes = b"") -> Document:
        """Return `clientConfig` of a webhook."""
        config: Document = {}
        if self.host:
            config["url"] = f"{self.base_url}{path}"
        else:
            config["service"] = {"namespace": self.namespace, "name": self.service, "path": path, "port": 443}
        if bundle:
            config["caBundle"] = base64.b64encode(bundle).decode()
        return config


def build_configurations(
    rules: Iterable[ReviewRule], endpoint: Endpoint, *, bundle: bytes = b""
) -> list[Document]:
    """Return both webhook configurations for the installation. If no bundle is given, the manager sets it later.

    Only the manager writes match conditions, because they depend on the stored objects.
    """
    rules = tuple(rules)
    configurations = []
    for resource, name in CONFIGURATIONS:
        mutating = resource == MUTATING
        entries = [
            rule.to_document(endpoint.build_client_config(rule.path, bundle))
            for rule in rules
            if rule.mutating is mutating
        ]
        configurations.append(
            {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {"name": name, "annotations": {RELEASE: release_of(entries)}},
                "webhooks": entries,
            }
        )
    return configurations


def release_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return a short hash of webhook entries that does not depend on the server's address."""
    return _hash_entries(
        [{key: value for key, value in entry.items() if key != "clientConfig"} for entry in entries]
    )


def _hash_entries(entries: Sequence[Mapping[str, Any]]) -> str:
    return hashlib.sha256(orjson.dumps(entries, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


# ── webhook configurations ───────────────────────────────────────────────────


def build_desired_webhooks(
    live: Mapping[str, Any],
    rules: Mapping[str, ReviewRule],
    *,
    endpoint: Endpoint,
    bundle: bytes,
    installed: Sequence[ReviewRule] = (),
) -> Document:
    """Return the desired state of a live webhook configuration. `rules`: served path → rule. `installed`: the rules
    whose entries the installer writes; a new template contains all of them.

    Entries whose path is not served are left out. All other entries get `bundle` and the address of this server. As in
    OpenKruise, an entry that is registered by URL keeps its URL, unless the endpoint has a `host`.
    Namespaces that other programs excluded after the installation stay excluded. Raises WebhookConfigurationError.
    """
    template, is_new = _read_template(live, installed, endpoint)
    present = {entry.get("name"): entry for entry in live.get("webhooks") or ()}
    webhooks = []
    for entry in template:
        path = _read_path(entry)
        if path in rules:
            wanted = _with_exclusions(entry, present.get(entry.get("name")) or {})
            webhooks.append(_build_entry(wanted, rules[path], path, endpoint=endpoint, bundle=bundle))
    annotations = dict(annotations_of(live))
    if webhooks != live.get("webhooks"):
        annotations.pop(CONFIRMED, None)
    if is_new:
        annotations[TEMPLATE] = orjson.dumps(template).decode()
        if RELEASE in annotations:
            annotations[TEMPLATE_OF] = annotations[RELEASE]
    if RELEASE not in annotations:
        annotations.pop(TEMPLATE_OF, None)
    metadata = {**(live.get("metadata") or {}), "annotations": annotations}
    return {**live, "metadata": metadata, "webhooks": webhooks}


def add_confirmation(live: Mapping[str, Any]) -> Document | None:
    """Return the configuration with an annotation that records the second write of its entries; None if it already has
    this annotation.

    API servers (Kubernetes 1.27 and newer) cache the entries until the configuration is written again. An API server
    that reads them during a write may keep the old entries permanently. If the old entries have no CA bundle, it
    rejects all requests that the webhooks review. Any later write corrects this.
    """
    annotations, entries = annotations_of(live), _hash_entries(live.get("webhooks") or [])
    if annotations.get(CONFIRMED) == entries:
        return None
    metadata = {**(live.get("metadata") or {}), "annotations": {**annotations, CONFIRMED: entries}}
    return {**live, "metadata": metadata}


def covers(entry: Mapping[str, Any], rule: ReviewRule) -> bool:
    """Whether the entry sends all writes that the rule reviews to a path of the rule. Their names may differ."""
    if _find_path(entry) not in rule.paths:
        return False
    written = [
        ResourceRule(
            groups=tuple(each.get("apiGroups") or ()),
            resources=tuple(each.get("resources") or ()),
            operations=tuple(each.get("operations") or ()),
        )
        for each in entry.get("rules") or ()
    ]
    for needed in rule.rules:
        for group, name, operation in product(needed.groups, needed.resources, needed.operations):
            plural, _, subresource = name.partition("/")
            resource = Resource(group, "", plural, "")
            if not any(each.matches(resource, subresource, operation) for each in written):
                return False
    return True


def list_mismatches(live: Mapping[str, Any], rules: Mapping[str, ReviewRule], *, bundle: bytes) -> list[str]:
    """Return the names of served entries whose caBundle is not `bundle`. Used with external certificates."""
    encoded = base64.b64encode(bundle).decode()
    return [
        str(entry.get("name"))
        for entry in live.get("webhooks") or ()
        if _read_path(entry) in rules and (entry.get("clientConfig") or {}).get("caBundle") != encoded
    ]


def read_current_conditions(live: Mapping[str, Any]) -> dict[str, tuple[MatchCondition, ...]]:
    """Return the path of each entry → the match conditions of this program that the entry has now. Entries without such
    conditions are included.
    """
    return {
        _read_path(entry): tuple(
            MatchCondition(condition["name"], condition["expression"])
            for condition in entry.get("matchConditions") or ()
            if condition.get("name") in CONDITIONS
        )
        for entry in live.get("webhooks") or ()
    }


def drop_conditions(live: Mapping[str, Any]) -> Document:
    """Return the configuration without this program's conditions. With such a configuration, API servers
    send admission reviews for all objects that the rules match.
    """
    return {**live, "webhooks": [_without_conditions(entry) for entry in live.get("webhooks") or ()]}


def _read_template(
    live: Mapping[str, Any], installed: Sequence[ReviewRule], endpoint: Endpoint
) -> tuple[list[Document], bool]:
    """Return the entries as installed, and whether the annotation `template` must be written."""
    annotations = annotations_of(live)
    text = annotations.get(TEMPLATE) or ""
    release = annotations.get(RELEASE)
    is_installed_again = release is not None and release != annotations.get(TEMPLATE_OF)
    if text and not is_installed_again:
        return _decode_template(text), False
    entries = [_without_conditions(entry) for entry in live.get("webhooks") or ()]
    if not is_installed_again:
        return entries, True
    mutating = live["metadata"]["name"] == MUTATING_NAME
    rules = [rule for rule in installed if rule.mutating is mutating]
    try:
        earlier = _decode_template(text) if text else []
    except WebhookConfigurationError:
        earlier = []
    return _complete_entries(entries, earlier, rules, endpoint), True


def _decode_template(text: str) -> list[Document]:
    try:
        result = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise WebhookConfigurationError(
            f"annotation {TEMPLATE} is not JSON: {error}; correct or remove it"
        ) from error
    if not isinstance(result, list) or not all(isinstance(entry, dict) for entry in result):
        raise WebhookConfigurationError(f"annotation {TEMPLATE} is not a list of webhooks; remove the value")
    return result


_OWN_FIELDS: Final = ("clientConfig", "rules", "sideEffects")
"""Fields that must fit the manager that responds. All other fields of an entry may have been changed by users."""


def _complete_entries(
    entries: Sequence[Document], earlier: Sequence[Document], rules: Iterable[ReviewRule], endpoint: Endpoint
) -> list[Document]:
    """Return the live entries, and entries for the rules whose writes they do not cover.

    If the template (`earlier`) contains an entry for the rule, this entry is added as it was installed: OpenKruise's
    manager stores all installed entries in an empty template, but leaves some out of the live entries. Otherwise the
    entry is created from the rule, with the fields of a live entry of the same name that users may change. The added
    entry replaces the live entry of the same name.
    """
    result = list(entries)
    for rule in rules:
        if any(covers(entry, rule) for entry in result):
            continue
        entry = next(
            (entry for entry in earlier if entry.get("name") == rule.name and covers(entry, rule)), None
        )
        position = next(
            (number for number, present in enumerate(result) if present.get("name") == rule.name), None
        )
        if entry is None:
            entry = rule.to_document(endpoint.build_client_config(rule.path))
            if position is not None:
                entry = {**entry, **result[position], **{field: entry[field] for field in _OWN_FIELDS}}
        if position is None:
            result.append(entry)
        else:
            result[position] = entry
    return result


def _without_conditions(entry: Mapping[str, Any]) -> Document:
    """Return the entry without this program's conditions."""
    conditions = dict(entry)
    others = [
        condition
        for condition in entry.get("matchConditions") or ()
        if condition.get("name") not in CONDITIONS
    ]
    conditions.pop("matchConditions", None)
    return {**conditions, "matchConditions": others} if others else conditions


_NAMESPACES: Final = "namespaceSelector"
_EXCLUDING: Final = ("DoesNotExist", "NotIn")


def _with_exclusions(entry: Mapping[str, Any], live: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entry as installed. If other programs have only added exclusions to its namespace selector, keep
    these exclusions.

    Hosted clusters exclude their own namespaces from all webhooks: AKS's admissions enforcer excludes the labels
    `control-plane` and `kubernetes.azure.com/managedby`. If a manager removed an exclusion, the enforcer would add it
    again, and both would write forever.
    """
    installed, present = entry.get(_NAMESPACES) or {}, live.get(_NAMESPACES) or {}
    if installed == present or not _has_only_more_exclusions(installed, present):
        return entry
    return {**entry, _NAMESPACES: present}


def _has_only_more_exclusions(installed: Mapping[str, Any], present: Mapping[str, Any]) -> bool:
    """Whether the present selector has all requirements of the installed selector, and all its other requirements
    only exclude objects.
    """
    wanted = [*(installed.get("matchExpressions") or ())]
    there = [*(present.get("matchExpressions") or ())]
    if (installed.get("matchLabels") or {}) != (present.get("matchLabels") or {}):
        return False
    return all(any(_is_narrower(old, new) for new in there) for old in wanted) and all(
        new in wanted or new.get("operator") in _EXCLUDING for new in there
    )


def _is_narrower(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether the new expression equals the old expression, or excludes at least the same values."""
    if old.get("operator") != "NotIn" or new.get("operator") != "NotIn":
        return old == new
    return old.get("key") == new.get("key") and set(old.get("values") or ()) <= set(new.get("values") or ())


def _read_path(entry: Mapping[str, Any]) -> str:
    path = _find_path(entry)
    if not path:
        raise WebhookConfigurationError(
            f"webhook {entry.get('name')} has neither clientConfig.service.path nor clientConfig.url"
        )
    return path


def _find_path(entry: Mapping[str, Any]) -> str:
    config = entry.get("clientConfig") or {}
    return str((config.get("service") or {}).get("path") or urlsplit(config.get("url") or "").path)


_DEFAULTS: Final[Mapping[str, Any]] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
"""Defaults that API servers add. Without them, an entry of a template that lacks a field would differ from the stored
entry forever, and each reconcile would write it again.
"""


def _build_entry(
    entry: Mapping[str, Any], rule: ReviewRule, path: str, *, endpoint: Endpoint, bundle: bytes
) -> Document:
    written = entry.get("clientConfig") or {}
    config = endpoint.build_client_config(path, bundle)
    if port := (written.get("service") or {}).get("port"):
        if "service" in config:
            config["service"]["port"] = port
    elif written.get("url") and not endpoint.host:
        # The user has chosen this address, for example that of a proxy.
        config = {key: value for key, value in config.items() if key != "service"} | {"url": written["url"]}
    result = {**_DEFAULTS, **_without_conditions(entry), "clientConfig": config}
    result["rules"] = [{"scope": "*", **each} for each in entry.get("rules") or ()]
    if rule.mutating:
        result = {"reinvocationPolicy": "Never", **result}
    if rule.conditions:
        added = [
            {"name": condition.name, "expression": condition.expression} for condition in rule.conditions
        ]
        result["matchConditions"] = [*(result.get("matchConditions") or ()), *added]
    return result


# ── CRDs ─────────────────────────────────────────────────────────────────────


def build_desired_conversion(
    conversion: Mapping[str, Any] | None, *, endpoint: Endpoint, bundle: bytes
) -> Document | None:
    """Return the desired `spec.conversion` of one of our CRDs; None if the stored value is correct.

    None also if the CRD does not use a webhook for conversion.
    """
    if not conversion or conversion.get("strategy") != "Webhook":
        return None
    wanted = build_webhook_conversion(
        service=(endpoint.namespace, endpoint.service),
        url=endpoint.base_url,
        path=CONVERT_PATH,
        ca_bundle=bundle,
    )
    return None if is_same(dict(conversion), wanted) else wanted
