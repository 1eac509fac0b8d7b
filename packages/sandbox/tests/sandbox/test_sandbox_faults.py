"""Containers that a scripted failure applies to, and combinations of several failures."""

import pytest

from pykruise.sandbox.nodes.faults import NORMAL, Rule, behaviour_of, parse_rules
from support.paper import pod_document, view

POD = view(pod_document("web-1", labels={"app": "web"}, node="node-2"))


@pytest.mark.parametrize(
    "rule",
    [
        Rule(image="nginx:*", exit_code=1),
        Rule(node="node-2", exit_code=1),
        Rule(container="ma??", exit_code=1),
        Rule(namespace="default", pod="web-*", exit_code=1),
        Rule(labels="app in (web,api)", exit_code=1),
        Rule(first_runs=2, exit_code=1),
    ],
)
def test_a_rule_applies_only_where_all_its_matchers_match(rule: Rule) -> None:
    assert behaviour_of([rule], POD, container="main", image="nginx:1", run=2).exit_code == 1


@pytest.mark.parametrize(
    "rule",
    [
        Rule(image="nginx:2*", exit_code=1),
        Rule(image="nginx:*", node="node-1", exit_code=1),
        Rule(labels="app!=web", exit_code=1),
        Rule(namespace="kube-system", exit_code=1),
        Rule(first_runs=1, exit_code=1),
    ],
)
def test_rules_do_not_affect_other_containers(rule: Rule) -> None:
    assert behaviour_of([rule], POD, container="main", image="nginx:1", run=2) == NORMAL


def test_the_first_rule_about_a_point_decides_it() -> None:
    # given
    rules = [Rule(start_s=3.0), Rule(start_s=9.0, ready_s=4.0), Rule(never_ready=True, after_s=7.0)]
    # when
    behaviour = behaviour_of(rules, POD, container="main", image="nginx:1")
    # then
    assert (behaviour.start_s, behaviour.ready_s, behaviour.unready_after_s, behaviour.exit_code) == (
        3.0,
        4.0,
        7.0,
        None,
    )


def test_rules_are_read_from_plain_values() -> None:
    # given
    listed = [{"image": "shop:*", "never_ready": True, "after_s": 30}, {"labels": "app=web", "exit_code": 1}]
    # then
    assert parse_rules(listed) == (
        Rule(image="shop:*", never_ready=True, after_s=30.0),
        Rule(labels="app=web", exit_code=1),
    )


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([{"imgae": "shop"}], "unknown field `imgae`"),
        ([{}, {"after_s": "soon"}], r"`\$\[1\].after_s`"),
        ([{"labels": "a=("}], r"`\$\[0\].labels`"),
        ({"image": "shop"}, "Expected `array`"),
    ],
)
def test_a_rule_that_cannot_be_read_is_named(listed: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_rules(listed)
