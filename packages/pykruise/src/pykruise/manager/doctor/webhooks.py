"""Checks of the webhooks: Service, certificate, configurations, and a dry run through all of them."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from pykruise.admission.certificate_work import authorities_of, examine, shares_authority
from pykruise.admission.certificates import judge, read_renew_before
from pykruise.admission.configurations import (
    CONFIGURATIONS,
    MUTATING,
    MUTATING_NAME,
    RELEASE,
    TEMPLATE_OF,
    VALIDATING,
    VALIDATING_NAME,
    covers,
    read_current_conditions,
)
from pykruise.admission.match_conditions import list_due_conditions, list_widest_conditions
from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.selector_index import list_selecting_kinds, list_selectors
from pykruise.admission.settings import make_admission_settings
from pykruise.admission.stores import read_certificates
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.documents import Document, annotations_of, labels_of
from pykruise.kube.errors import (
    InternalError,
    InvalidError,
    KubeError,
    ServerTimeoutError,
)
from pykruise.kube.resources import NAMESPACES, SECRETS, SERVICES, Resource
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.kube.webhooks.reviews import index_rules_by_path
from pykruise.manager.doctor.findings import Finding, make_fault, make_fine, make_unknown, make_warning
from pykruise.manager.doctor.live import Live
from pykruise.manager.doctor.trial import make_trial_cloneset
from pykruise.manager.doctor.workload import count_ready_addresses
from pykruise.manager.install import MANAGER, WEBHOOK_PORT_NAME
from pykruise.manager.settings import WebhookSettings

ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
WEEK_S = 7 * 24 * 3600.0
LOG = f"kubectl -n {{namespace}} logs deployment/{MANAGER}"
COMPLETE = (
    "let the manager add the missing entries: kubectl annotate "
    f"{MUTATING.plural}/{MUTATING_NAME} {VALIDATING.plural}/{VALIDATING_NAME} {TEMPLATE_OF}-"
)
EXTERNAL = (
    "find out why the program that provides the certificates, such as cert-manager, has not written the Secret;"
    " with the gate EnableExternalCerts the manager does not write it"
)
START = f"start a manager if none runs; if one runs, read its log: {LOG}"


async def _read_webhook_settings(live: Live) -> WebhookSettings:
    return (await live.read_settings_or_defaults()).webhook


async def _is_by_url(live: Live) -> bool:
    """Whether webhooks are registered by URL, for a manager outside the cluster, instead of by Service."""
    live_one = await live.get(MUTATING, "", MUTATING_NAME)
    entries = (live_one or {}).get("webhooks") or ()
    return bool(entries) and all("url" in (entry.get("clientConfig") or {}) for entry in entries)


async def check_service(live: Live) -> Sequence[Finding]:
    """Check that the Service leads to a ready pod."""
    if await _is_by_url(live):
        return [make_fine("service", "webhooks are registered by URL, so no Service is needed")]
    settings = await _read_webhook_settings(live)
    service = await live.get(SERVICES, live.namespace, settings.service)
    name = f"{live.namespace}/{settings.service}"
    if service is None:
        return [make_fault("service", f"there is no Service {name}: no webhook can be reached", live.apply)]
    ports = service["spec"].get("ports") or []
    port = next((port for port in ports if port.get("port") == 443), None)
    if port is None:
        return [make_fault("service", f"Service {name} has no port 443", live.apply)]
    if port.get("targetPort") not in (settings.port, WEBHOOK_PORT_NAME):
        target = port.get("targetPort")
        what = f"Service {name} sends requests to port {target}, but the manager serves at {settings.port}"
        return [make_fault("service", what, live.apply)]
    label = f"kubernetes.io/service-name={settings.service}"
    slices = await live.list(ENDPOINT_SLICES, live.namespace, label_selector=label)
    ready = count_ready_addresses(slices)
    if not ready:
        what = f"Service {name} has no ready pod: every write to OpenKruise's kinds is rejected"
        return [
            make_fault(
                "service",
                what,
                f'see the finding of the check "manager", and read the log: {LOG.format(namespace=live.namespace)}',
            )
        ]
    return [make_fine("service", f"Service {name} has {format_count(ready, 'ready pod')}")]


async def check_certificate(live: Live) -> Sequence[Finding]:
    """Check that the certificate and the key in the Secret match, and that the certificate is valid for the name of the
    Service and does not expire soon.
    """
    if await _is_by_url(live):
        return [
            make_fine(
                "certificate", "webhooks are registered by URL, so the manager uses its own certificate files"
            )
        ]
    flags = await live.read_settings_or_defaults()
    settings, is_external = flags.webhook, flags.gates["EnableExternalCerts"]
    secret = await live.get(SECRETS, live.namespace, settings.secret)
    name = f"{live.namespace}/{settings.secret}"
    if secret is None:
        fix = EXTERNAL if is_external else START.format(namespace=live.namespace)
        return [make_fault("certificate", f"there is no Secret {name}", fix)]
    stored = read_certificates(secret)
    host = f"{settings.service}.{live.namespace}.svc"
    facts = examine(stored, host=host)
    problem = judge(facts, now=live.clock(), lasting_s=0.0)
    fix = (
        EXTERNAL
        if is_external
        else "delete the Secret, and the manager creates a new one: "
        f"kubectl -n {live.namespace} delete secret {settings.secret}"
    )
    if problem:
        return [make_fault("certificate", f"Secret {name}: {problem}", fix)]
    # Other programs may use short-lived certificates, which they renew in the last third of the lifetime.
    shortest_s = min((period.end - period.start for period in facts.periods), default=WEEK_S)
    lasting_s = min(WEEK_S, shortest_s / 10) if is_external else WEEK_S
    if soon := judge(facts, now=live.clock(), lasting_s=lasting_s):
        if is_external:
            return [make_warning("certificate", f"Secret {name}: {soon}", fix)]
        renew_days = read_renew_before(settings.renew_before) / 86400
        days = format_count(round(renew_days), "day")
        what = (
            f"Secret {name}: {soon}; the manager should have renewed the certificate {days} before the expiry"
        )
        return [make_warning("certificate", what, fix)]
    return [make_fine("certificate", f"{name} is valid for {host}")]


async def check_configurations(live: Live) -> Sequence[Finding]:
    """Check that both configurations exist, point to the manager, trust its CA and leave out excluded namespaces."""
    settings = await _read_webhook_settings(live)
    secret = await live.get(SECRETS, live.namespace, settings.secret)
    authority = read_certificates(secret or {}).authority
    namespaces = {
        name: labels_of(configurations)
        for name in (live.namespace, "kube-system")
        if (configurations := await live.get(NAMESPACES, "", name)) is not None
    }
    findings: list[Finding] = []
    entries: dict[str, Document] = {}
    is_ours = True
    for resource, name in CONFIGURATIONS:
        configurations = await live.get(resource, "", name)
        if configurations is None:
            findings.append(
                make_fault(
                    "webhooks",
                    f"{name} does not exist: objects get no defaults and no validation",
                    live.apply,
                )
            )
            continue
        is_ours = is_ours and RELEASE in annotations_of(configurations)
        for entry in configurations.get("webhooks") or ():
            entries[entry["name"]] = entry
            findings += _check_entry(entry, settings, live, authority, namespaces)
        findings += await _check_conditions(live, name, configurations)
    if len(findings) == 0:
        # The manager leaves out entries of kinds that are not installed; check_crds reports these kinds.
        gates = await live.read_gates()
        wanted = [rule for rule in build_reviewers(make_admission_settings(gates)) if rule.needs is None]
        missing = [rule.name for rule in wanted if not any(covers(entry, rule) for entry in entries.values())]
        if missing:
            what = (
                "these webhooks are not registered for all writes that the manager reviews: "
                f"{', '.join(sorted(missing))}"
            )
            completes = is_ours and not gates["EnableExternalCerts"]
            findings.append(make_warning("webhooks", what, COMPLETE if completes else live.apply))
    return findings or [
        make_fine(
            "webhooks",
            f"{format_count(len(entries), 'webhook is registered and trusts', 'webhooks are registered and trust')}"
            " the manager's CA",
        )
    ]


async def _check_conditions(live: Live, name: str, conditions: Document) -> list[Finding]:
    """Check that API servers send reviews of all pods, or at least of all pods that pykruise's objects select."""
    written = read_current_conditions(conditions)
    if not any(written.values()):
        return []
    settings = make_admission_settings(await live.read_gates(), namespace=live.namespace)
    rules = {
        path: rule for path, rule in index_rules_by_path(build_reviewers(settings)).items() if path in written
    }
    selecting = list_selecting_kinds(settings)
    interests = await list_selectors(live.client, selecting)
    due = list_due_conditions(rules, interests)
    if {path: written[path] for path in due} in (due, list_widest_conditions(rules)):
        return []
    names = ", ".join(sorted(f"{kind.resource.kind}s" for kind in selecting))
    what = (
        f"the match conditions of {name} leave out pods that objects select ({names}): API servers send no reviews "
        "of these pods"
    )
    return [make_fault("webhooks", what, START.format(namespace=live.namespace))]


def _check_entry(
    entry: Document,
    settings: WebhookSettings,
    live: Live,
    authority: bytes,
    namespaces: Mapping[str, Mapping[str, str]],
) -> list[Finding]:
    name, namespace = entry["name"], live.namespace
    config = entry.get("clientConfig") or {}
    log = LOG.format(namespace=namespace)
    findings = []
    service = config.get("service")
    if service and (service.get("namespace"), service.get("name")) != (namespace, settings.service):
        where = f"{service.get('namespace')}/{service.get('name')}"
        what = f"{name} points to Service {where}, not {namespace}/{settings.service}"
        findings.append(make_fault("webhooks", what, live.apply))
    bundle = _decode_bundle(config)
    if not bundle:
        what = f"{name} has no CA bundle: the API server rejects the manager's certificate"
        findings.append(make_fault("webhooks", what, START.format(namespace=namespace)))
    elif problem := _check_bundle(bundle):
        findings.append(
            make_fault(
                "webhooks",
                f"the CA bundle of {name} {problem}",
                f"restart the manager, and read its log: {log}",
            )
        )
    elif service and authority and not shares_authority(bundle, authority):
        what = f"{name} trusts another CA than the one that signed the manager's certificate"
        findings.append(make_fault("webhooks", what, f"restart the manager, and read its log: {log}"))
    for where, labels in namespaces.items():
        if _is_for_pods(entry) and _is_selected(entry, labels) and entry.get("failurePolicy") == "Fail":
            what = f"{name} reviews pods of namespace {where}: when the manager is down, these pods cannot be created"
            fix = (
                live.apply
                if where != namespace
                else f"label namespace {where} as `pykruise install` does, and {live.apply}"
            )
            findings.append(make_fault("webhooks", what, fix))
    return findings


def _decode_bundle(config: Mapping[str, Any]) -> bytes:
    try:
        return base64.b64decode(config.get("caBundle") or "")
    except (binascii.Error, ValueError):
        return b"not base64"


def _check_bundle(bundle: bytes) -> str:
    try:
        return "" if authorities_of(bundle) else "is empty"
    except ValueError:
        return "cannot be read"


def _is_for_pods(entry: Mapping[str, Any]) -> bool:
    return any(
        "" in rule.get("apiGroups", ())
        and any(resource.startswith("pods") for resource in rule.get("resources", ()))
        for rule in entry.get("rules") or ()
    )


def _is_selected(entry: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    try:
        return parse_selector(entry.get("namespaceSelector") or {}).matches(labels)
    except SelectorError:
        return False


async def check_admission(live: Live) -> Sequence[Finding]:
    """Create a CloneSet with no pods as a dry run, so that the API server calls both webhooks of the kind."""
    try:
        await live.client.create(CLONE_SETS, live.namespace, make_trial_cloneset(CLONE_SETS), dry_run=True)
    except (InternalError, ServerTimeoutError) as error:
        return [make_fault("admission", f"a CloneSet cannot be written: {error}", _fix_of(str(error), live))]
    except InvalidError as error:
        return [
            make_warning(
                "admission",
                f"a plain CloneSet is rejected: {error}",
                "check which other webhooks review CloneSets",
            )
        ]
    except KubeError as error:
        return [make_unknown("admission", f"the dry run failed: {error}")]
    return [make_fine("admission", "a CloneSet passes the webhooks (dry run)")]


def _fix_of(error: str, live: Live) -> str:
    log = LOG.format(namespace=live.namespace)
    wrong = f"the certificate does not match the CA bundle; restart the manager, and read its log: {log}"
    causes = (
        ("x509", wrong),
        ("certificate", wrong),
        ("no endpoints", 'no manager is ready; see the finding of the check "manager"'),
        ("not found", f"the Service is missing; {live.apply}"),
        ("refused", 'the manager does not listen; see the finding of the check "manager"'),
        ("deadline", "the API server does not reach the manager: check network policies and firewalls"),
        ("timeout", "the API server does not reach the manager: check network policies and firewalls"),
        (
            "no such host",
            "the API server cannot resolve the Service; set WEBHOOK_HOST of the manager to register webhooks by URL",
        ),
    )
    return next((fix for word, fix in causes if word in error), log)
