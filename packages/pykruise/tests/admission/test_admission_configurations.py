"""Webhook configurations and conversion stanzas: their contents, and the changes that keep them so."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pykruise.admission.configurations import (
    MUTATING_NAME,
    VALIDATING_NAME,
    Endpoint,
    WebhookConfigurationError,
    add_confirmation,
    build_configurations,
    build_desired_conversion,
    build_desired_webhooks,
    drop_conditions,
    list_mismatches,
)
from pykruise.admission.match_conditions import list_due_conditions, replace_conditions
from pykruise.admission.reviewers import build_reviewers, list_installed_rules
from pykruise.admission.settings import AdmissionSettings
from pykruise.kube.admission import ReviewRule
from pykruise.kube.documents import deep_copy
from pykruise.kube.values.cel import Interests
from pykruise.kube.webhooks.reviews import index_rules_by_path

SERVICE = Endpoint()
URL = Endpoint(host="10.0.0.5")
BUNDLE = b"-----BEGIN CERTIFICATE-----"
ENCODED = base64.b64encode(BUNDLE).decode()
ON = AdmissionSettings(deletion_protection=True)
NO_INTERESTS: Interests = {"SidecarSet": (), "WorkloadSpread": (), "PodUnavailableBudget": ()}

Doc = dict[str, Any]


def installed(settings: AdmissionSettings = ON) -> tuple[Doc, Doc]:
    mutating, validating = build_configurations(build_reviewers(settings), SERVICE)
    return mutating, validating


def kept(
    live: Doc,
    *,
    settings: AdmissionSettings = ON,
    endpoint: Endpoint = SERVICE,
    interests: Interests | None = None,
) -> Doc:
    before = deep_copy(live)
    rules: Mapping[str, ReviewRule] = index_rules_by_path(build_reviewers(settings))
    if interests is not None:
        rules = replace_conditions(rules, list_due_conditions(rules, interests))
    kept = build_desired_webhooks(
        live, rules, endpoint=endpoint, bundle=BUNDLE, installed=list_installed_rules(settings)
    )
    assert live == before
    return kept


def names(doc: Doc) -> list[str]:
    return [entry["name"] for entry in doc["webhooks"]]


def entry(doc: Doc, name: str) -> Doc:
    return next(webhook for webhook in doc["webhooks"] if webhook["name"] == name)


def test_both_configurations_have_the_originals_names_and_entries() -> None:
    mutating, validating = installed()
    assert (mutating["metadata"]["name"], validating["metadata"]["name"]) == (MUTATING_NAME, VALIDATING_NAME)
    assert entry(mutating, "mcloneset.kb.io") == {
        "name": "mcloneset.kb.io",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "clientConfig": {
            "service": {
                "namespace": "kruise-system",
                "name": "kruise-webhook-service",
                "path": "/mutate-apps-kruise-io-cloneset",
                "port": 443,
            }
        },
        "failurePolicy": "Fail",
        "rules": [
            {
                "apiGroups": ["apps.kruise.io"],
                "apiVersions": ["v1alpha1", "v1beta1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["clonesets"],
                "scope": "*",
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": 10,
    }
    assert entry(validating, "vcloneset.kb.io")["rules"][0]["operations"] == ["CREATE", "UPDATE", "DELETE"]


def test_only_kube_system_and_for_pods_also_the_managers_own_namespace_is_excluded() -> None:
    """admission case 19"""
    mutating, validating = installed(AdmissionSettings(deletion_protection=True, namespace="mine"))
    outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "mine"]}
    labelled = {"key": "control-plane", "operator": "NotIn", "values": ["openkruise"]}
    pods = entry(mutating, "mpod.kb.io")
    assert pods["namespaceSelector"] == {"matchExpressions": [labelled, outside]}
    for name in names(validating):
        if name.startswith("vbuiltin") or name in ("vnamespace.kb.io", "vservice.kb.io", "vingress.kb.io"):
            result = entry(validating, name)
            assert result["namespaceSelector"] == {
                "matchExpressions": [{**outside, "values": ["kube-system"]}]
            }
            assert result["objectSelector"]["matchExpressions"][0]["operator"] == "Exists"


def test_entries_point_to_the_service_that_is_configured() -> None:
    live = installed()[0]
    live["webhooks"][0]["clientConfig"]["service"] |= {"namespace": "old", "name": "old", "port": 8443}
    endpoint = Endpoint(namespace="ns", service="svc")
    config = kept(live, endpoint=endpoint)["webhooks"][0]["clientConfig"]
    assert config["caBundle"] == ENCODED
    assert config["service"] == {"namespace": "ns", "name": "svc", "path": "/mutate-pod", "port": 8443}


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("10.0.0.5", "https://10.0.0.5:9876"),
        ("hooks.example", "https://hooks.example:9876"),
        ("::1", "https://[::1]:9876"),
    ],
)
def test_outside_the_cluster_entries_are_urls(host: str, url: str) -> None:
    """admission case 6"""
    endpoint = Endpoint(host=host)
    config = entry(kept(installed()[0], endpoint=endpoint), "mcloneset.kb.io")["clientConfig"]
    assert config == {"caBundle": ENCODED, "url": f"{url}/mutate-apps-kruise-io-cloneset"}


def test_an_entry_with_a_url_keeps_it_and_gets_the_ca_bundle() -> None:
    live = installed()[0]
    url = "https://proxy.example/mutate-apps-kruise-io-cloneset"
    entry(live, "mcloneset.kb.io")["clientConfig"] = {"url": url, "caBundle": "AAAA"}
    result = kept(live)
    assert entry(result, "mcloneset.kb.io")["clientConfig"] == {"url": url, "caBundle": ENCODED}
    assert kept(result) == result
    # and WEBHOOK_HOST applies to all entries
    config = entry(kept(live, endpoint=URL), "mcloneset.kb.io")["clientConfig"]
    assert config["url"] == "https://10.0.0.5:9876/mutate-apps-kruise-io-cloneset"


def test_applying_a_webhook_configuration_is_idempotent() -> None:
    for endpoint in (SERVICE, URL):
        for live in installed():
            once = kept(live, endpoint=endpoint)
            assert kept(once, endpoint=endpoint) == once


def test_an_edited_ca_bundle_is_restored() -> None:
    """admission case 8"""
    good = kept(installed()[1])
    bad = deep_copy(good)
    bad["webhooks"][2]["clientConfig"]["caBundle"] = "AAAA"
    assert kept(bad) == good


def test_entries_are_confirmed_once_and_again_after_each_change() -> None:
    # given
    live = kept(installed()[1])
    # when
    once = add_confirmation(live)
    # then
    assert once is not None
    assert add_confirmation(once) is None
    assert kept(once) == once
    # and when another client changes them
    other = deep_copy(once)
    other["webhooks"][2]["timeoutSeconds"] = 3
    assert add_confirmation(other) is not None
    # and repaired configurations are not confirmed, since API servers have seen two changes
    other = deep_copy(once)
    other["webhooks"][2]["clientConfig"]["caBundle"] = "AAAA"
    assert kept(other) == live


def test_webhooks_of_disabled_features_are_removed_and_restored() -> None:
    """admission cases 9 and 10"""
    off = kept(installed()[1], settings=AdmissionSettings())
    assert not {"vservice.kb.io", "vingress.kb.io"} & set(names(off))
    template = json.loads(off["metadata"]["annotations"]["template"])
    assert {"vservice.kb.io", "vingress.kb.io"} <= {item["name"] for item in template}
    on = kept(off)
    assert {"vservice.kb.io", "vingress.kb.io"} <= set(names(on))


def test_webhooks_that_are_not_served_here_are_left_out() -> None:
    live = installed()[0]
    foreign = deep_copy(live["webhooks"][0]) | {"name": "mother.kb.io"}
    foreign["clientConfig"]["service"]["path"] = "/mutate-apps-kruise-io-other"
    live["webhooks"].append(foreign)
    assert "mother.kb.io" not in names(kept(live))


def test_the_old_spelling_of_a_path_is_known() -> None:
    """admission case 58"""
    live = installed()[0]
    old = entry(live, "mcloneset.kb.io")
    old["clientConfig"]["service"]["path"] = "/mutate-apps-kruise-io-v1alpha1-cloneset"
    old["rules"][0]["apiVersions"] = ["v1alpha1"]
    result = entry(kept(live), "mcloneset.kb.io")
    assert result["clientConfig"]["service"]["path"] == "/mutate-apps-kruise-io-v1alpha1-cloneset"
    assert result["rules"][0]["apiVersions"] == ["v1alpha1"]


def test_an_entry_without_any_path_is_an_error_that_names_it() -> None:
    live = kept(installed()[0])
    live["metadata"]["annotations"]["template"] = ""
    live["webhooks"][0]["clientConfig"] = {"url": "https://10.0.0.5:9876"}
    with pytest.raises(WebhookConfigurationError, match=r"webhook mpod\.kb\.io has neither"):
        kept(live)


@pytest.mark.parametrize("template", ["{", "{}", "[3]", '"x"'])
def test_an_invalid_template_annotation_is_an_error(template: str) -> None:
    live = installed()[0]
    live["metadata"]["annotations"] = {"template": template}
    with pytest.raises(WebhookConfigurationError, match="annotation template"):
        kept(live)


def test_conditions_that_spare_calls_are_added_and_never_part_of_the_template() -> None:
    # given an installer's entry with a condition of its own
    live = installed()[0]
    live["webhooks"][0]["matchConditions"] = [{"name": "theirs", "expression": "true"}]
    # when
    result = kept(live, interests=NO_INTERESTS)
    # then
    both = entry(result, "mpod.kb.io")["matchConditions"]
    assert [item["name"] for item in both] == ["theirs", "pykruise.io/asked-for"]
    template = json.loads(result["metadata"]["annotations"]["template"])
    assert template[0]["matchConditions"] == [{"name": "theirs", "expression": "true"}]
    # and when every pod should be reviewed, only our condition is removed
    for every in (kept(result), drop_conditions(result)):
        assert entry(every, "mpod.kb.io")["matchConditions"] == [{"name": "theirs", "expression": "true"}]


def test_another_release_of_the_installer_replaces_the_template() -> None:
    """pitfall 2"""
    # given configurations of a release without the gate's webhooks, taken over by a manager
    rules = index_rules_by_path(build_reviewers())
    old = build_desired_webhooks(installed(AdmissionSettings())[1], rules, endpoint=SERVICE, bundle=BUNDLE)
    assert "vservice.kb.io" not in names(kept(old))
    # when a newer release adds entries to the live configurations
    newer = installed()[1]
    old["webhooks"] = [*old["webhooks"], *newer["webhooks"][-2:], entry(newer, "vservice.kb.io")]
    old["metadata"]["annotations"] |= newer["metadata"]["annotations"]
    # then
    assert "vservice.kb.io" in names(kept(old))


def test_an_empty_template_annotation_is_replaced_by_the_live_webhooks() -> None:
    live = kept(installed()[1])
    live["webhooks"] = live["webhooks"][:1]
    live["metadata"]["annotations"]["template"] = ""
    result = kept(live)
    assert len(json.loads(result["metadata"]["annotations"]["template"])) == 1


def test_certificates_from_outside_are_only_compared() -> None:
    """admission case 12"""
    rules = index_rules_by_path(build_reviewers(ON))
    live = kept(installed()[1])
    assert list_mismatches(live, rules, bundle=BUNDLE) == []
    live["webhooks"][1]["clientConfig"]["caBundle"] = "AAAA"
    assert list_mismatches(live, rules, bundle=BUNDLE) == [live["webhooks"][1]["name"]]


@pytest.mark.parametrize("conversion", [None, {}, {"strategy": "None"}])
def test_a_crd_without_conversion_by_webhook_is_not_changed(conversion: Doc | None) -> None:
    """admission case 13"""
    assert build_desired_conversion(conversion, endpoint=SERVICE, bundle=BUNDLE) is None


@pytest.mark.parametrize("endpoint", [SERVICE, URL])
def test_the_conversion_of_a_crd_points_here_and_is_written_once(endpoint: Endpoint) -> None:
    """pitfall 3"""
    result = build_desired_conversion({"strategy": "Webhook"}, endpoint=endpoint, bundle=BUNDLE)
    assert result is not None
    config = result["webhook"]["clientConfig"]
    assert config["caBundle"] == ENCODED
    if endpoint.host:
        assert config["url"] == "https://10.0.0.5:9876/convert"
    else:
        assert config["service"] == {
            "namespace": "kruise-system",
            "name": "kruise-webhook-service",
            "path": "/convert",
            "port": 443,
        }
    assert result["webhook"]["conversionReviewVersions"] == ["v1", "v1beta1"]
    assert build_desired_conversion(result, endpoint=endpoint, bundle=BUNDLE) is None


AKS: list[Doc] = [
    {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
    {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
]
"""Expressions that AKS's admissions enforcer adds to each webhook, again whenever one is missing."""


def enforced(doc: Doc, expressions: list[Doc]) -> Doc:
    """The configuration after an enforcer has excluded namespaces from each of its webhooks."""
    result: Doc = deep_copy(doc)
    for webhook in result["webhooks"]:
        selector = webhook.setdefault("namespaceSelector", {})
        there = selector.setdefault("matchExpressions", [])
        there += [expression for expression in expressions if expression not in there]
    return result


@pytest.mark.parametrize("settings", [ON, AdmissionSettings()])
def test_namespaces_that_an_enforcer_excludes_stay_excluded_in_each_webhook(
    settings: AdmissionSettings,
) -> None:
    for doc in installed(settings):
        # given configurations that the manager has taken over
        live = kept(doc, settings=settings)
        # when an enforcer narrows them
        narrowed = enforced(live, AKS)
        # then the manager leaves that alone, and so does the enforcer
        assert kept(narrowed, settings=settings) == narrowed
        assert enforced(kept(narrowed, settings=settings), AKS) == narrowed


def test_an_enforcer_may_add_to_the_values_of_an_expression() -> None:
    live = kept(installed()[0])
    [selector, *_] = entry(live, "mpod.kb.io")["namespaceSelector"]["matchExpressions"]
    narrowed = deep_copy(live)
    entry(narrowed, "mpod.kb.io")["namespaceSelector"]["matchExpressions"][0] = {
        **selector,
        "values": [*selector["values"], "true"],
    }
    assert kept(narrowed) == narrowed


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"webhooks": "on"}},
        {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]},
        {"matchExpressions": [{"key": "control-plane", "operator": "NotIn", "values": ["true"]}]},
        {},
    ],
    ids=["labels", "only some", "less than installed", "nothing"],
)
def test_another_selector_of_namespaces_becomes_that_of_the_installer(selector: Doc) -> None:
    live = kept(installed()[0])
    changed = deep_copy(live)
    entry(changed, "mpod.kb.io")["namespaceSelector"] = selector
    assert kept(changed) == live


# ── a switch while managers of both programs run ─────────────────────────────

THEIR_BUNDLE = "T3BlbktydWlzZQ=="
OFF = AdmissionSettings()
PLAIN = ("statefulset", "persistentpodstate", "podprobemarker", "podunavailablebudget")
"""Kinds whose paths have no version in OpenKruise 1.8."""


def their_path(rule: ReviewRule, release: str) -> str:
    """Path at which OpenKruise serves a webhook."""
    is_plain = release == "1.9" or rule.path.endswith(PLAIN) or not rule.aliases
    versioned = next((path for path in rule.paths if "-v1alpha1-" in path), rule.path)
    return rule.path if is_plain else versioned


def their_paths(release: str) -> set[str]:
    """Paths that OpenKruise serves while its gate ResourcesDeletionProtection is off."""
    return {their_path(rule, release) for rule in build_reviewers(OFF)}


def theirs(release: str) -> tuple[Doc, Doc]:
    """Configurations as OpenKruise's chart installs them: with longer timeouts, without pods/resize and EphemeralJob"""
    both = installed()
    by_name = {rule.name: rule for rule in list_installed_rules(ON)}
    for doc in both:
        doc["metadata"]["annotations"] = {"template": ""}
        doc["webhooks"] = [item for item in doc["webhooks"] if item["name"] != "vephemeraljobs.kb.io"]
        for item in doc["webhooks"]:
            item["clientConfig"]["service"]["path"] = their_path(by_name[item["name"]], release)
            item["timeoutSeconds"] = 30
            item["rules"] = [rule for rule in item["rules"] if rule["resources"] != ["pods/resize"]]
    return both


def openkruise_writes(live: Doc, release: str) -> Doc:
    """The configuration after a reconcile of one of OpenKruise's replicas (configuration.Ensure)."""
    result: Doc = deep_copy(live)
    annotations = result["metadata"].setdefault("annotations", {})
    if not annotations.get("template"):
        annotations["template"] = json.dumps(result["webhooks"])
    result["webhooks"] = []
    for item in json.loads(annotations["template"]):
        if item["clientConfig"]["service"]["path"] in their_paths(release):
            item["clientConfig"]["caBundle"] = THEIR_BUNDLE
            result["webhooks"].append(item)
    return result


def applied(live: Doc, doc: Doc) -> Doc:
    """The configuration after a server-side apply: entries are merged by name."""
    result: Doc = deep_copy(live)
    result["metadata"]["annotations"] = {
        **result["metadata"]["annotations"],
        **doc["metadata"]["annotations"],
    }
    stored = {item["name"]: item for item in live["webhooks"]}
    sent = {item["name"]: item for item in deep_copy(doc)["webhooks"]}
    result["webhooks"] = list(
        {**stored, **{name: {**stored.get(name, {}), **sent[name]} for name in sent}}.values()
    )
    return result


def upgraded_by_helm(live: Doc, doc: Doc) -> Doc:
    """The configuration after an upgrade to a chart without the annotation `template`: Helm removes the annotation."""
    result = applied(live, doc)
    del result["metadata"]["annotations"]["template"]
    return result


def assert_everything_is_reviewed(doc: Doc, settings: AdmissionSettings) -> None:
    """Each rule of this manager has an entry that covers its writes."""
    mutating = doc["metadata"]["name"] == MUTATING_NAME
    for rule in build_reviewers(settings):
        if rule.mutating is mutating:
            [webhook] = [item for item in doc["webhooks"] if item["name"] == rule.name]
            assert webhook["clientConfig"]["service"]["path"] in rule.paths
            assert webhook["clientConfig"]["caBundle"] == ENCODED
            resources = {name for each in webhook["rules"] for name in each["resources"]}
            assert resources == {name for each in rule.rules for name in each.resources}


@pytest.mark.parametrize("release", ["1.8", "1.9"])
@pytest.mark.parametrize("install", [applied, upgraded_by_helm])
@pytest.mark.parametrize("rewrites", range(3), ids=["never", "once", "after each write"])
def test_a_switch_registers_all_webhooks_although_replicas_of_openkruise_rewrite_them(
    release: str, install: Callable[[Doc, Doc], Doc], rewrites: int
) -> None:
    for before, doc in zip(theirs(release), installed(), strict=True):
        # given OpenKruise's manager, and pykruise's installation beside it
        live = install(openkruise_writes(before, release), doc)
        # when OpenKruise's replicas restore their entries before or after each write of pykruise
        if rewrites:
            live = openkruise_writes(live, release)
        live = kept(live, settings=OFF)
        assert_everything_is_reviewed(live, OFF)
        if rewrites == 2:
            live = openkruise_writes(openkruise_writes(live, release), release)
        # then the last write of pykruise registers everything
        live = kept(live, settings=OFF)
        assert_everything_is_reviewed(live, OFF)
        assert kept(live, settings=OFF) == live
        # and also the webhooks of a gate that is enabled later
        assert_everything_is_reviewed(kept(live), ON)


def test_after_a_switch_by_helm_the_entries_are_those_of_the_chart() -> None:
    """OpenKruise's replicas store all entries of the chart, but register only some of them."""
    before, doc = theirs("1.8")[1], installed()[1]
    for item in doc["webhooks"]:
        item["timeoutSeconds"] = 7
    live = openkruise_writes(upgraded_by_helm(openkruise_writes(before, "1.8"), doc), "1.8")
    assert "vcloneset.kb.io" not in names(live)
    assert {item["timeoutSeconds"] for item in kept(live)["webhooks"]} == {7}


def test_completed_entries_keep_the_fields_that_users_may_change() -> None:
    # given an entry that OpenKruise's manager has restored, with changes
    live = openkruise_writes(applied(openkruise_writes(theirs("1.9")[1], "1.9"), installed()[1]), "1.9")
    changes = {
        "failurePolicy": "Ignore",
        "timeoutSeconds": 3,
        "namespaceSelector": {"matchLabels": {"team": "a"}},
        "objectSelector": {"matchLabels": {"app": "b"}},
        "matchConditions": [{"name": "theirs", "expression": "true"}],
    }
    entry(live, "vpod.kb.io").update(changes)
    # when the entry does not cover all writes
    result = entry(kept(live), "vpod.kb.io")
    # then only the rules are replaced
    assert [rule["resources"] for rule in result["rules"]] == [["pods"], ["pods/resize"]]
    assert {field: result[field] for field in changes} == changes


def test_an_upgrade_beside_an_older_replica_registers_new_webhooks_and_keeps_changed_entries() -> None:
    # given an older release that does not know the webhooks of a gate
    doc = installed()[1]
    older = deep_copy(doc)
    older["webhooks"] = [item for item in older["webhooks"] if item["name"] != "vcloneset.kb.io"]
    older["metadata"]["annotations"]["pykruise.io/webhooks"] = "older"
    known = [rule for rule in build_reviewers(ON) if rule.name != "vcloneset.kb.io"]

    def older_replica_writes(live: Doc) -> Doc:
        rules = index_rules_by_path(known)
        return build_desired_webhooks(live, rules, endpoint=SERVICE, bundle=BUNDLE, installed=known)

    live = older_replica_writes(older)
    # when a changed manifest of the new release is applied, and an older replica reconciles first
    entry(doc, "vdaemonset.kb.io")["failurePolicy"] = "Ignore"
    live = older_replica_writes(applied(live, doc))
    assert "vcloneset.kb.io" not in names(live)
    # then
    live = kept(live)
    assert_everything_is_reviewed(live, ON)
    assert entry(live, "vdaemonset.kb.io")["failurePolicy"] == "Ignore"


def test_an_entry_that_a_user_removed_stays_removed() -> None:
    live = kept(installed()[1])
    live["webhooks"] = [item for item in live["webhooks"] if item["name"] != "vdaemonset.kb.io"]
    live["metadata"]["annotations"]["template"] = ""
    assert "vdaemonset.kb.io" not in names(kept(kept(live)))


@pytest.mark.parametrize("release", ["1.8", "1.9"])
def test_the_way_back_registers_openkruises_webhooks_and_a_second_switch_ours(release: str) -> None:
    for before, doc in zip(theirs(release), installed(), strict=True):
        saved = openkruise_writes(before, release)
        live = kept(applied(saved, doc), settings=OFF)
        # when the saved configuration is applied while a replica of pykruise runs
        back = deep_copy(live)
        del back["metadata"]["annotations"]["pykruise.io/webhooks"]
        back = kept(applied(back, saved), settings=OFF)
        # then OpenKruise's manager registers what it had registered
        back = openkruise_writes(back, release)
        assert names(back) == names(saved)
        assert back["metadata"]["annotations"] == saved["metadata"]["annotations"]
        # and after a second switch everything is registered
        again = kept(openkruise_writes(applied(back, doc), release), settings=OFF)
        assert_everything_is_reviewed(again, OFF)


@pytest.mark.parametrize("release", ["1.8", "1.9"])
def test_ephemeral_jobs_have_the_path_that_each_release_serves(release: str) -> None:
    result = entry(openkruise_writes(installed()[1], release), "vephemeraljobs.kb.io")
    path = "/validate-apps-kruise-io-v1alpha1-ephemeraljob"
    assert result["clientConfig"]["service"]["path"] == path


def test_an_entry_without_the_defaults_of_api_servers_is_written_with_them() -> None:
    """Otherwise each reconcile would remove what API servers add."""
    live = kept(installed()[0])
    template = [{**item} for item in installed()[0]["webhooks"]]
    for item in template:
        del item["timeoutSeconds"], item["failurePolicy"]
    live["metadata"]["annotations"]["template"] = json.dumps(template)
    for item in kept(live)["webhooks"]:
        defaults = ("matchPolicy", "reinvocationPolicy", "failurePolicy", "timeoutSeconds")
        assert [item[field] for field in defaults] == ["Equivalent", "Never", "Fail", 10]
        assert item["objectSelector"] == {}
