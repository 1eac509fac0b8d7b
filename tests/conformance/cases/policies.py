"""ValidatingAdmissionPolicies: valid policies, matching writes, and the result of a write that breaks one."""

from typing import Any

from conformance.builders import config_map, deployment, labelled, pod
from conformance.dsl import MERGE, Step, case, create, delete, get, patch, pause, table

_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_HERE = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "$ns"}}}


def _rule(resource: str = "configmaps", group: str = "", *operations: str, **more: Any) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": list(operations or ("CREATE", "UPDATE")),
        "resources": [resource],
        **more,
    }


def _policy(*validations: dict[str, Any], name: str = "$ns", rule: Any = None, **spec: Any) -> dict[str, Any]:
    """A policy about ConfigMaps in the case's namespace, unless `spec` changes this."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {**_HERE, "resourceRules": [rule or _rule()]},
            "validations": list(validations),
            **spec,
        },
    }


def _binding(*actions: str, name: str = "$ns", policy: str = "$ns", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": policy, "validationActions": list(actions or ("Deny",)), **spec},
    }


def _kept(policy: dict[str, Any], *bindings: dict[str, Any]) -> list[Step]:
    """Create a policy, and wait until it is in force: a real server reads new policies every second."""
    first = create(_POLICIES, policy)
    return [first, *(create(_BINDINGS, each) for each in bindings or (_binding(),)), pause(3.0)]


def _gone(name: str = "$ns") -> list[Step]:
    return [delete(f"{_BINDINGS}/{name}"), delete(f"{_POLICIES}/{name}")]


_YES = {"expression": "true"}


def _says(expression: str, **more: Any) -> dict[str, Any]:
    return {"expression": expression, **more}


_KEYS = "has(object.data) && object.data.size() <= 2"

CASES = [
    case(
        "a policy gets its defaults and must be valid",
        create(_POLICIES, _policy(_says("object.data.size() < 3", message="too many"), name="$ns-a")),
        create(_POLICIES, _policy(name="$ns-b")),
        create(_POLICIES, _policy(_YES, name="$ns-b", matchConstraints=None)),
        create(_POLICIES, _policy(_YES, name="$ns-b", matchConstraints={"resourceRules": []})),
        create(_POLICIES, _policy(_YES, name="$ns-b", failurePolicy="Maybe")),
        create(_POLICIES, _policy(_YES, name="$ns-b", paramKind={"apiVersion": "a/b/c", "kind": "x y"})),
        create(_POLICIES, _policy(_YES, name="$ns-b", paramKind={})),
        create(
            _POLICIES,
            _policy(
                {"expression": " ", "messageExpression": " ", "message": " ", "reason": "Whim"}, name="$ns-b"
            ),
        ),
        create(_POLICIES, _policy(_says("true", message="two\nlines"), name="$ns-b")),
        create(_POLICIES, _policy(_YES, name="$ns-b", variables=[{"name": "a-b", "expression": ""}])),
        create(
            _POLICIES,
            _policy(
                _YES,
                name="$ns-b",
                matchConditions=[
                    {"name": "same", "expression": "true"},
                    {"name": "same", "expression": "true"},
                    {"name": "not right", "expression": ""},
                ],
            ),
        ),
        create(
            _POLICIES,
            _policy(
                _YES,
                name="$ns-b",
                auditAnnotations=[
                    {"key": "k", "valueExpression": "'v'"},
                    {"key": "k", "valueExpression": ""},
                ],
            ),
        ),
        create(
            _POLICIES,
            _policy(
                _YES,
                name="$ns-b",
                matchConstraints={
                    "matchPolicy": "Roughly",
                    "resourceRules": [_rule(resourceNames=["a", "a", "b/c"])],
                    "excludeResourceRules": [{"apiGroups": [""], "operations": ["GUESS"]}],
                },
            ),
        ),
        patch(f"{_POLICIES}/$ns-a", {"spec": {"failurePolicy": "Ignore"}}, MERGE),
        patch(f"{_POLICIES}/$ns-a", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        delete(f"{_POLICIES}/$ns-a"),
    ),
    case(
        "a binding of a policy must be valid",
        create(_BINDINGS, _binding(name="$ns-a", matchResources=_HERE)),
        create(_BINDINGS, _binding(name="$ns-b", policy="")),
        create(_BINDINGS, _binding(name="$ns-b", policy="No Name")),
        create(_BINDINGS, _binding("Deny", "Warn", name="$ns-b")),
        create(_BINDINGS, _binding("Audit", "Audit", "Shout", name="$ns-b")),
        create(_BINDINGS, {**_binding(name="$ns-b"), "spec": {"policyName": "p"}}),
        create(_BINDINGS, _binding(name="$ns-b", paramRef={})),
        create(_BINDINGS, _binding(name="$ns-b", paramRef={"name": "a/b", "selector": {}})),
        create(
            _BINDINGS, _binding(name="$ns-b", paramRef={"name": "a", "parameterNotFoundAction": "Perhaps"})
        ),
        patch(f"{_BINDINGS}/$ns-a", {"spec": {"validationActions": ["Warn"]}}, MERGE),
        delete(f"{_BINDINGS}/$ns-a"),
    ),
    case(
        "a policy's expressions must be ones",
        create(_POLICIES, _policy(_says("object.data.size("), name="$ns-b"), only=("reason", "code")),
        create(_POLICIES, _policy(_says("nobody == 1"), name="$ns-b")),
        create(_POLICIES, _policy(_says("params == null"), name="$ns-b")),
        create(_POLICIES, _policy(_says("variables.x == 1"), name="$ns-b")),
        create(
            _POLICIES,
            _policy(_says("variables.y == 1"), name="$ns-b", variables=[{"name": "x", "expression": "1"}]),
        ),
        create(
            _POLICIES,
            _policy(_YES, name="$ns-b", matchConditions=[{"name": "c", "expression": "variables.x"}]),
        ),
    ),
    case(
        "a policy denies in its own words",
        *_kept(
            _policy(
                _says("object.metadata.name != 'plain'"),
                _says("object.metadata.name != 'worded'", message="not like this"),
                _says(
                    "object.metadata.name != 'computed'",
                    message="unused",
                    messageExpression="'no ' + object.metadata.name + ' by ' + request.operation",
                ),
                _says("object.metadata.name != 'forbidden'", message="never", reason="Forbidden"),
                _says("object.metadata.name != 'large'", message="too large", reason="RequestEntityTooLarge"),
                _says("object.metadata.name != 'failing' || object.data.nothing == 'x'"),
                _says(
                    "object.metadata.name != 'worse'",
                    message="worse",
                    messageExpression="string(object.no.way)",
                ),
            )
        ),
        *(
            create("configmaps", config_map(name))
            for name in (
                "plain",
                "worded",
                "computed",
                "forbidden",
                "large",
                "failing",
                "worse",
                "fine",
            )
        ),
        patch("configmaps/fine", {"data": {"a": "b"}}, MERGE),
        *_gone(),
    ),
    case(
        "a policy may warn instead, and looks at what it is bound to",
        *_kept(
            _policy(_says("false", message="beware")),
            _binding("Warn", matchResources={**_HERE, "objectSelector": {"matchLabels": {"ask": "warn"}}}),
            _binding(
                "Audit",
                name="$ns-2",
                matchResources={**_HERE, "objectSelector": {"matchLabels": {"ask": "audit"}}},
            ),
            _binding(
                "Deny",
                name="$ns-3",
                matchResources={
                    **_HERE,
                    "resourceRules": [_rule("configmaps", "", "CREATE", resourceNames=["named"])],
                },
            ),
        ),
        create("configmaps", labelled(config_map("a"), ask="warn")),
        create("configmaps", labelled(config_map("b"), ask="audit")),
        create("configmaps", config_map("named")),
        create("configmaps", config_map("other")),
        create("secrets", {"metadata": {"name": "a"}}),
        *_gone(),
        delete(f"{_BINDINGS}/$ns-2"),
        delete(f"{_BINDINGS}/$ns-3"),
    ),
    case(
        "conditions and variables of a policy",
        *_kept(
            _policy(
                _says("variables.count <= variables.most", messageExpression="string(variables.count)"),
                _says("!variables.marked || namespaceObject.metadata.name == object.metadata.namespace"),
                matchConditions=[
                    {"name": "not-skipped", "expression": "!object.metadata.name.startsWith('skip')"},
                    {"name": "no-error", "expression": "object.metadata.name != 'lost' || object.no.way"},
                ],
                variables=[
                    {"name": "count", "expression": "has(object.data) ? object.data.size() : 0"},
                    {"name": "most", "expression": "oldObject == null ? 1 : 2"},
                    {
                        "name": "marked",
                        "expression": "has(object.metadata.labels) && 'm' in object.metadata.labels",
                    },
                ],
            )
        ),
        create("configmaps", config_map("a", x="1", y="2")),
        create("configmaps", config_map("skipped", x="1", y="2")),
        create("configmaps", config_map("b", x="1")),
        patch("configmaps/b", {"data": {"y": "2"}}, MERGE),
        patch("configmaps/b", {"data": {"z": "3"}}, MERGE),
        create("configmaps", config_map("lost")),
        create("configmaps", labelled(config_map("c"), m="1")),
        *_gone(),
    ),
    case(
        "a policy that may fail, and one about deletions and scales",
        *_kept(
            _policy(
                _says("object.data.nothing == 'x'"),
                name="$ns",
                failurePolicy="Ignore",
            ),
            _binding(),
        ),
        create(
            _POLICIES,
            _policy(
                _says("oldObject.metadata.name != 'kept' && object == null", message="stays"),
                name="$ns-2",
                rule=_rule("configmaps", "", "DELETE"),
            ),
        ),
        create(_BINDINGS, _binding(name="$ns-2", policy="$ns-2")),
        create(
            _POLICIES,
            _policy(
                _says("object.spec.replicas < 3", messageExpression="string(object.kind)"),
                name="$ns-3",
                rule=_rule("deployments/scale", "apps"),
            ),
        ),
        create(_BINDINGS, _binding(name="$ns-3", policy="$ns-3")),
        create("configmaps", config_map("kept")),
        create("configmaps", config_map("b")),
        create("deployments", deployment(replicas=1)),
        pause(3.0),
        delete("configmaps/kept"),
        delete("configmaps/b", only=("status",)),
        patch("deployments/web/scale", {"spec": {"replicas": 2}}, MERGE),
        patch("deployments/web/scale", {"spec": {"replicas": 3}}, MERGE),
        patch("deployments/web", {"spec": {"replicas": 4}}, MERGE, only=("spec.replicas",)),
        *_gone(),
        *_gone("$ns-2"),
        *_gone("$ns-3"),
    ),
    case(
        "a policy has parameters",
        create("configmaps", labelled(config_map("limits", most="1"), kind="limit")),
        *_kept(
            _policy(
                _says(
                    "params == null || object.spec.containers.size() <= int(params.data.most)",
                    messageExpression="'more than ' + params.data.most",
                ),
                rule=_rule("pods", "", "CREATE"),
                paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            ),
            _binding(paramRef={"name": "limits", "parameterNotFoundAction": "Deny"}),
        ),
        create("pods", pod("a", {"name": "x", "image": "x"}, {"name": "y", "image": "y"})),
        create("pods", pod("b"), only=("metadata.name",)),
        delete("configmaps/limits", only=("status",)),
        pause(3.0),
        create("pods", pod("c")),
        delete(f"{_BINDINGS}/$ns", only=("status",)),
        create(
            _BINDINGS,
            _binding(
                name="$ns",
                paramRef={
                    "selector": {"matchLabels": {"kind": "limit"}},
                    "parameterNotFoundAction": "Allow",
                },
            ),
        ),
        pause(6.0),
        create("pods", pod("c"), only=("metadata.name",)),
        create("configmaps", labelled(config_map("new", most="0"), kind="limit")),
        pause(3.0),
        create("pods", pod("d")),
        *_gone(),
        *_kept(
            _policy(_YES, name="$ns-2", paramKind={"apiVersion": "example.com/v1", "kind": "Nothing"}),
            _binding(
                name="$ns-2",
                policy="$ns-2",
                paramRef={"name": "a", "parameterNotFoundAction": "Deny"},
            ),
        ),
        create("configmaps", config_map("lost")),
        *_gone("$ns-2"),
    ),
    case(
        "policies and bindings are shown as tables",
        create(_POLICIES, _policy(_YES, _YES, name="$ns-a"), only=("kind",)),
        create(
            _POLICIES,
            _policy(_YES, name="$ns-b", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
            only=("kind",),
        ),
        table(f"{_POLICIES}/$ns-a"),
        table(f"{_POLICIES}/$ns-b"),
        *(
            step
            for name, ref in (
                ("$ns-1", None),
                ("$ns-2", {"name": "x", "parameterNotFoundAction": "Deny"}),
                ("$ns-3", {"name": "x", "namespace": "n", "parameterNotFoundAction": "Deny"}),
                (
                    "$ns-4",
                    {
                        "selector": {
                            "matchLabels": {"b": "c", "a": "b"},
                            "matchExpressions": [{"key": "k", "operator": "In", "values": ["v", "w"]}],
                        },
                        "parameterNotFoundAction": "Deny",
                    },
                ),
            )
            for step in (
                create(
                    _BINDINGS,
                    _binding(name=name, policy="nobody", **({"paramRef": ref} if ref else {})),
                    only=("kind",),
                ),
                table(f"{_BINDINGS}/{name}"),
                delete(f"{_BINDINGS}/{name}", only=("status",)),
            )
        ),
        delete(f"{_POLICIES}/$ns-a", only=("status",)),
        delete(f"{_POLICIES}/$ns-b", only=("status",)),
    ),
    case(
        "policies know quantities and formats",
        *_kept(
            _policy(
                _says(
                    "object.data.all(k, quantity(object.data[k]).isLessThan(quantity('1Gi')))",
                    messageExpression="'%s has %d keys, %s'.format([object.metadata.name, object.data.size(), [1, 2]])",
                ),
                _says("quantity('1024Mi') == quantity('1Gi') && quantity('50k').asInteger() == 50000"),
                _says("quantity('1').add(quantity('500m')).compareTo(quantity('1500m')) == 0"),
                _says("isQuantity('1Gi') && !isQuantity('x') && sign(quantity('-1')) == -1"),
                _says(
                    "'%f %.2f %x %X %b %o %% %s'.format([1.5, 1.0, 255, 'az', 5, 8, {'a': true, 'b': null}]) == "
                    "'1.500000 1.00 ff 617A 101 10 % {a: true, b: null}'",
                    messageExpression="'%f %.2f %x %X %b %o %% %s'"
                    ".format([1.5, 1.0, 255, 'az', 5, 8, {'a': true, 'b': null}])",
                ),
            )
        ),
        create("configmaps", config_map("a", x="1Mi", y="2M")),
        create("configmaps", config_map("b", x="1Gi")),
        get("configmaps/a", only=("data",)),
        *_gone(),
    ),
]
