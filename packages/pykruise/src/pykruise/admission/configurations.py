"""How API servers find the webhooks: webhook configurations and the conversion stanza of CRDs.

ReviewRules ──▶ configurations() ──▶ both objects, for installing
live object + Endpoint + bundle ──▶ desired_webhooks()   ──▶ the object as it should be
live object                     ──▶ with_confirmation()  ──▶ the same, written once more
live CRD    + Endpoint + bundle ──▶ desired_conversion() ──▶ its stanza as it should be, or None: not ours
                                    (webhook_plan.py says when they are written)

Pure. Object names, the annotation `template` and its meaning are OpenKruise's: the template holds the entries as
they were installed, so that one which is left out while its feature is off comes back with it.

The match conditions that spare calls (`CONDITIONS`) are never part of the template: a user who takes the template
over, OpenKruise's own manager too, gets the webhooks as they were installed.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import orjson

from pykruise.admission.pods.chain import CONDITION
from pykruise.kube.admission import MatchCondition, ReviewRule
from pykruise.kube.documents import Document, annotations_of, same
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import webhook_conversion

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
"""Annotation: the entries as they were installed, as JSON. OpenKruise's."""

RELEASE: Final = "pykruise.io/webhooks"
"""Annotation by the installer: which table of webhooks it installed."""

TEMPLATE_OF: Final = "pykruise.io/template-of"
"""Annotation by the manager: of which table the template was taken. Another one: it is taken anew."""

CONFIRMED: Final = "pykruise.io/confirmed"
"""Annotation by the manager: which entries it wrote a second time, a moment later; see `with_confirmation`."""

CONDITIONS: Final = frozenset({CONDITION})
"""Names of the match conditions that this program writes, and may replace."""

CONVERT_PATH: Final = "/convert"


class WebhookConfigurationError(ValueError):
    """A webhook configuration that cannot be kept; the message says which entry and why."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where API servers find the server: behind a Service, or with `host` at a URL of its own."""

    namespace: str = "kruise-system"
    service: str = "kruise-webhook-service"
    host: str = ""
    """WEBHOOK_HOST: a name or an address."""
    port: int = 9876
    """Port of the server; only for `host`. A Service has port 443."""

    @property
    def name(self) -> str:
        """The name that the certificate has to cover."""
        return self.host or f"{self.service}.{self.namespace}.svc"

    @property
    def base_url(self) -> str:
        """`https://host:port`; empty behind a Service."""
        if not self.host:
            return ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}"

    def client_config(self, path: str, bundle: bytes = b"") -> Document:
        """`clientConfig` of a webhook."""
        config: Document = {}
        if self.host:
            config["url"] = f"{self.base_url}{path}"
        else:
            config["service"] = {"namespace": self.namespace, "name": self.service, "path": path, "port": 443}
        if bundle:
            config["caBundle"] = base64.b64encode(bundle).decode()
        return config


def configurations(rules: Iterable[ReviewRule], endpoint: Endpoint, *, bundle: bytes = b"") -> list[Document]:
    """Both webhook configurations, to be installed. Without a bundle the manager fills it in.

    Match conditions are left to the manager, who knows what is stored; an installer that wrote them too
    would quarrel with it about them.
    """
    rules = tuple(rules)
    configurations = []
    for resource, name in CONFIGURATIONS:
        mutating = resource == MUTATING
        entries = [
            rule.document(endpoint.client_config(rule.path, bundle))
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
    """A short hash of a table of webhooks, wherever the server is."""
    return _hash([{key: value for key, value in entry.items() if key != "clientConfig"} for entry in entries])


def _hash(entries: Sequence[Mapping[str, Any]]) -> str:
    return hashlib.sha256(orjson.dumps(entries, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


# ── webhook configurations ───────────────────────────────────────────────────


def desired_webhooks(
    live: Mapping[str, Any], rules: Mapping[str, ReviewRule], *, endpoint: Endpoint, bundle: bytes
) -> Document:
    """A live webhook configuration as it should be; `rules` by every path that is served.

    Entries whose path is not served are left out, the others point here and believe `bundle`. Namespaces that others
    have excluded since stay excluded. Raises WebhookConfigurationError.
    """
    template, is_new = _template(live)
    present = {entry.get("name"): entry for entry in live.get("webhooks") or ()}
    webhooks = []
    for entry in template:
        path = _path(entry)
        if path in rules:
            installed = _with_exclusions(entry, present.get(entry.get("name")) or {})
            webhooks.append(_entry(installed, rules[path], path, endpoint=endpoint, bundle=bundle))
    annotations = dict(annotations_of(live))
    if webhooks != live.get("webhooks"):
        annotations.pop(CONFIRMED, None)
    if is_new:
        annotations[TEMPLATE] = orjson.dumps(template).decode()
        if RELEASE in annotations:
            annotations[TEMPLATE_OF] = annotations[RELEASE]
    metadata = {**(live.get("metadata") or {}), "annotations": annotations}
    return {**live, "metadata": metadata, "webhooks": webhooks}


def with_confirmation(live: Mapping[str, Any]) -> Document | None:
    """The configuration with a note that its entries were written a second time; None: it has that note.

    Kubernetes' API servers (1.27 and newer) keep entries as they read them until the configuration is written
    again. One that reads them while the next write comes in may take the old for the new, and for good: without
    the bundle it refuses all that the webhooks are about. A later write, whatever it changes, cures that.
    """
    annotations, entries = annotations_of(live), _hash(live.get("webhooks") or [])
    if annotations.get(CONFIRMED) == entries:
        return None
    metadata = {**(live.get("metadata") or {}), "annotations": {**annotations, CONFIRMED: entries}}
    return {**live, "metadata": metadata}


def mismatches(live: Mapping[str, Any], rules: Mapping[str, ReviewRule], *, bundle: bytes) -> list[str]:
    """Entries that are served here and do not believe `bundle`: the names, for certificates made elsewhere."""
    encoded = base64.b64encode(bundle).decode()
    return [
        str(entry.get("name"))
        for entry in live.get("webhooks") or ()
        if _path(entry) in rules and (entry.get("clientConfig") or {}).get("caBundle") != encoded
    ]


def current_conditions(live: Mapping[str, Any]) -> dict[str, tuple[MatchCondition, ...]]:
    """Match conditions that API servers use for this program now, by the path of the entry; also entries without
    conditions.
    """
    return {
        _path(entry): tuple(
            MatchCondition(condition["name"], condition["expression"])
            for condition in entry.get("matchConditions") or ()
            if condition.get("name") in CONDITIONS
        )
        for entry in live.get("webhooks") or ()
    }


def without_conditions(live: Mapping[str, Any]) -> Document:
    """The configuration with API servers asking about everything that its rules name."""
    return {**live, "webhooks": [_without_conditions(entry) for entry in live.get("webhooks") or ()]}


def _template(live: Mapping[str, Any]) -> tuple[list[Document], bool]:
    """The entries as they were installed, and whether that is to be written down."""
    annotations = annotations_of(live)
    text = annotations.get(TEMPLATE) or ""
    if text and annotations.get(RELEASE) == annotations.get(TEMPLATE_OF):
        try:
            result = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise WebhookConfigurationError(
                f"annotation {TEMPLATE} is not JSON: {error}; set it to nothing"
            ) from error
        if not isinstance(result, list) or not all(isinstance(entry, dict) for entry in result):
            raise WebhookConfigurationError(
                f"annotation {TEMPLATE} is not a list of webhooks; remove the value"
            )
        return result, False
    return [_without_conditions(entry) for entry in live.get("webhooks") or ()], True


def _without_conditions(entry: Mapping[str, Any]) -> Document:
    """The entry without what this program added."""
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
    """The entry as it was installed, with the selector of namespaces that it has now if others have only excluded more.

    Hosted clusters keep webhooks of others away from their own namespaces: AKS's admissions enforcer excludes
    `control-plane` and `kubernetes.azure.com/managedby`. It writes that again whenever it is missing, so a manager that
    took it out would write for ever.
    """
    installed, present = entry.get(_NAMESPACES) or {}, live.get(_NAMESPACES) or {}
    if installed == present or not _only_excludes_more(installed, present):
        return entry
    return {**entry, _NAMESPACES: present}


def _only_excludes_more(installed: Mapping[str, Any], present: Mapping[str, Any]) -> bool:
    """Whether a selector has all of another, and besides it nothing but excluded values and keys."""
    wanted = [*(installed.get("matchExpressions") or ())]
    there = [*(present.get("matchExpressions") or ())]
    if (installed.get("matchLabels") or {}) != (present.get("matchLabels") or {}):
        return False
    return all(any(_is_narrower(old, new) for new in there) for old in wanted) and all(
        new in wanted or new.get("operator") in _EXCLUDING for new in there
    )


def _is_narrower(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether an expression is another one, or excludes its values and more."""
    if old.get("operator") != "NotIn" or new.get("operator") != "NotIn":
        return old == new
    return old.get("key") == new.get("key") and set(old.get("values") or ()) <= set(new.get("values") or ())


def _path(entry: Mapping[str, Any]) -> str:
    config = entry.get("clientConfig") or {}
    path = (config.get("service") or {}).get("path") or urlsplit(config.get("url") or "").path
    if not path:
        raise WebhookConfigurationError(
            f"webhook {entry.get('name')}: neither service.path nor url says where it is answered"
        )
    return str(path)


def _entry(
    entry: Mapping[str, Any], rule: ReviewRule, path: str, *, endpoint: Endpoint, bundle: bytes
) -> Document:
    config = endpoint.client_config(path, bundle)
    port = ((entry.get("clientConfig") or {}).get("service") or {}).get("port")
    if port and "service" in config:
        config["service"]["port"] = port
    result = {**_without_conditions(entry), "clientConfig": config}
    if rule.conditions:
        added = [
            {"name": condition.name, "expression": condition.expression} for condition in rule.conditions
        ]
        result["matchConditions"] = [*(result.get("matchConditions") or ()), *added]
    return result


# ── CRDs ─────────────────────────────────────────────────────────────────────


def desired_conversion(
    conversion: Mapping[str, Any] | None, *, endpoint: Endpoint, bundle: bytes
) -> Document | None:
    """`spec.conversion` of one of our CRDs as it should be; None when it is as it should be.

    A CRD whose versions are not converted by webhook is left as it is.
    """
    if not conversion or conversion.get("strategy") != "Webhook":
        return None
    wanted = webhook_conversion(
        service=(endpoint.namespace, endpoint.service),
        url=endpoint.base_url,
        path=CONVERT_PATH,
        ca_bundle=bundle,
    )
    return None if same(dict(conversion), wanted) else wanted
