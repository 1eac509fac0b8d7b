"""Rights become RBAC rules that allow exactly what was declared."""

from pykruise.kube.rbac import READ, make_right, merge_rights
from pykruise.kube.resources import CONFIG_MAPS, DEPLOYMENTS, PODS


def test_rights_on_one_resource_become_one_rule() -> None:
    rules = merge_rights([make_right(PODS, *READ), make_right(PODS, "patch", "get")])
    assert rules == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch", "watch"]}]


def test_resources_with_the_same_verbs_share_a_rule_but_groups_do_not() -> None:
    rules = merge_rights(
        [make_right(PODS, "get"), make_right(CONFIG_MAPS, "get"), make_right(DEPLOYMENTS, "get")]
    )
    assert rules == [
        {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
    ]


def test_a_right_on_named_objects_is_not_widened_by_another() -> None:
    rules = merge_rights(
        [make_right(CONFIG_MAPS, "get"), make_right(CONFIG_MAPS, "update", names=("b", "a"))]
    )
    assert {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]} in rules
    assert {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["a", "b"],
        "verbs": ["update"],
    } in rules


def test_subresources_get_their_own_right() -> None:
    assert merge_rights([make_right(PODS, "patch", subresource="status")]) == [
        {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}
    ]
