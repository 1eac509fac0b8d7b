"""Webhook configurations and conversion stanzas: their contents, and the changes that keep them so."""

import base64
import json
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
from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.settings import AdmissionSettings
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
    rules = index_rules_by_path(build_reviewers(settings))
    if interests is not None:
        rules = replace_conditions(rules, list_due_conditions(rules, interests))
    kept = build_desired_webhooks(live, rules, endpoint=endpoint, bundle=BUNDLE)
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
    live = installed()[0]
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
    old = kept(installed(AdmissionSettings())[1])
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
