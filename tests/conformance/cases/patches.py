"""The three patches: strategic merge with its directives, JSON merge, and JSON patch."""

from conformance.builders import config_map, container, deployment, labelled, pod, template, with_
from conformance.dsl import JSON_PATCH, MERGE, STRATEGIC, case, create, get, patch

_TWO = deployment(template=template("web", container("a", "a:1"), container("b", "b:1")))


def _containers(*containers: object) -> dict[str, object]:
    return {"spec": {"template": {"spec": {"containers": list(containers)}}}}


def _ops(*ops: tuple[object, ...]) -> list[dict[str, object]]:
    """JSON patch operations: (op, path[, value])."""
    names = ("op", "path", "value")
    return [dict(zip(names, op, strict=False)) for op in ops]


CASES = [
    case(
        "a strategic merge patch merges lists by their key",
        create("deployments", _TWO),
        patch("deployments/web", _containers({"name": "b", "image": "b:2"})),
        patch("deployments/web", _containers({"name": "c", "image": "c:1"})),
        patch("deployments/web", _containers({"name": "a", "env": [{"name": "X", "value": "1"}]})),
        patch("deployments/web", _containers({"name": "a", "env": [{"name": "Y", "value": "2"}]})),
        patch("deployments/web", _containers({"name": "a", "env": None})),
    ),
    case(
        "a strategic merge patch deletes by directive",
        create("deployments", _TWO),
        patch("deployments/web", _containers({"name": "a", "$patch": "delete"})),
        patch("deployments/web", _containers({"name": "nobody", "$patch": "delete"})),
        patch("deployments/web", {"metadata": {"labels": {"x": "y"}}}),
        patch("deployments/web", {"metadata": {"labels": {"$patch": "delete"}}}),
        patch("deployments/web", {"spec": {"strategy": {"$patch": "delete"}}}),
    ),
    case(
        "a strategic merge patch replaces by directive",
        create("deployments", _TWO),
        patch("deployments/web", _containers({"$patch": "replace"}, {"name": "z", "image": "z:1"})),
        patch(
            "deployments/web",
            {"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}},
        ),
        patch("deployments/web", {"metadata": {"annotations": {"a": "1", "b": "2"}}}),
        patch("deployments/web", {"metadata": {"annotations": {"$patch": "replace", "c": "3"}}}),
        patch(
            "deployments/web",
            {"spec": {"template": {"spec": {"nodeSelector": {"$patch": "merge", "a": "b"}}}}},
        ),
    ),
    case(
        "a strategic merge patch retains the keys that it lists",
        create("deployments", deployment(strategy={"rollingUpdate": {"maxSurge": 2}})),
        patch("deployments/web", {"spec": {"strategy": {"type": "Recreate"}}}),
        patch(
            "deployments/web",
            {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
        ),
        patch(
            "deployments/web",
            {"spec": {"strategy": {"$retainKeys": ["rollingUpdate"], "type": "RollingUpdate"}}},
        ),
    ),
    case(
        "volumes change their source with retained keys",
        create("pods", pod("none")),
        create(
            "deployments",
            deployment(
                template=template(volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}])
            ),
        ),
        patch(
            "deployments/web",
            {
                "spec": {
                    "template": {
                        "spec": {
                            "volumes": [
                                {
                                    "$retainKeys": ["name", "configMap"],
                                    "name": "v",
                                    "configMap": {"name": "c"},
                                }
                            ]
                        }
                    }
                }
            },
        ),
        patch(
            "deployments/web",
            {"spec": {"template": {"spec": {"volumes": [{"name": "w", "configMap": {"name": "c"}}]}}}},
        ),
    ),
    case(
        "a strategic merge patch sets the order of elements",
        create("deployments", _TWO),
        patch(
            "deployments/web",
            {
                "spec": {
                    "template": {
                        "spec": {
                            "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
                            "containers": [{"name": "c", "image": "c:1"}],
                        }
                    }
                }
            },
        ),
        patch(
            "deployments/web",
            {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}]}}}},
        ),
        patch(
            "deployments/web",
            {
                "spec": {
                    "template": {
                        "spec": {
                            "$setElementOrder/containers": [{"name": "a"}],
                            "containers": [{"name": "b", "image": "b:9"}],
                        }
                    }
                }
            },
        ),
    ),
    case(
        "primitive lists are merged, ordered and deleted from",
        create("configmaps", with_(config_map("a"), finalizers=["x.io/a", "x.io/b"])),
        patch("configmaps/a", {"metadata": {"finalizers": ["x.io/c"]}}),
        patch("configmaps/a", {"metadata": {"finalizers": ["x.io/c"]}}),
        patch("configmaps/a", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a", "x.io/none"]}}),
        patch(
            "configmaps/a",
            {
                "metadata": {
                    "$setElementOrder/finalizers": ["x.io/d", "x.io/c", "x.io/b"],
                    "finalizers": ["x.io/d"],
                }
            },
        ),
        patch(
            "configmaps/a",
            {
                "metadata": {
                    "$deleteFromPrimitiveList/finalizers": ["x.io/b"],
                    "$setElementOrder/finalizers": ["x.io/c", "x.io/d"],
                }
            },
        ),
    ),
    case(
        "atomic lists are replaced as a whole",
        create(
            "pods", pod("a", container(args=["1", "2"]), tolerations=[{"key": "x", "operator": "Exists"}])
        ),
        create(
            "deployments", deployment(template=template("web", container(args=["1", "2"], command=["run"])))
        ),
        patch("deployments/web", _containers({"name": "main", "args": ["3"]})),
        patch(
            "deployments/web",
            {"spec": {"template": {"spec": {"tolerations": [{"key": "y", "operator": "Exists"}]}}}},
        ),
        patch(
            "deployments/web",
            {"spec": {"template": {"spec": {"tolerations": [{"key": "z", "operator": "Exists"}]}}}},
        ),
        patch("pods/a", {"spec": {"tolerations": [{"key": "z", "operator": "Exists"}]}}),
    ),
    case(
        "ports of a service are merged by port and those of a container by their number",
        create(
            "services",
            {
                "metadata": {"name": "s"},
                "spec": {
                    "selector": {"a": "b"},
                    "ports": [{"name": "http", "port": 80}, {"name": "x", "port": 81}],
                },
            },
        ),
        patch("services/s", {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}),
        patch("services/s", {"spec": {"ports": [{"port": 81, "$patch": "delete"}]}}),
        create("deployments", deployment(template=template("web", container(ports=[{"containerPort": 80}])))),
        patch(
            "deployments/web", _containers({"name": "main", "ports": [{"containerPort": 80, "name": "http"}]})
        ),
        patch("deployments/web", _containers({"name": "main", "ports": [{"containerPort": 81}]})),
    ),
    case(
        "bad directives of a strategic merge patch are refused",
        create("deployments", _TWO),
        patch("deployments/web", {"metadata": {"labels": {"$patch": "sideways"}}}),
        patch("deployments/web", _containers({"image": "nameless"})),
        patch("deployments/web", {"spec": {"template": {"spec": {"containers": "text"}}}}),
        patch("deployments/web", {"spec": {"template": {"spec": {"containers": {"name": "x"}}}}}),
        patch("deployments/web", _containers("text")),
        patch("deployments/web", {"metadata": {"$deleteFromPrimitiveList/finalizers": "text"}}),
        patch("deployments/web", {"$unknown": 1}),
    ),
    case(
        "conditions of a status are merged by type",
        create("pods", pod("a")),
        patch(
            "pods/a/status",
            {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "x"}]}},
        ),
        patch(
            "pods/a/status",
            {
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}, {"type": "Mine", "status": "True"}]
                }
            },
        ),
        patch("pods/a/status", {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}),
        patch(
            "pods/a/status",
            {
                "status": {
                    "$setElementOrder/conditions": [{"type": "A"}, {"type": "Mine"}],
                    "conditions": [{"type": "A", "status": "True"}],
                }
            },
        ),
    ),
    case(
        "a merge patch merges maps, replaces lists and removes nulls",
        create("configmaps", config_map("a", x="1", y="2")),
        patch("configmaps/a", {"data": {"x": None, "z": "3"}}, MERGE),
        patch("configmaps/a", {"data": None}, MERGE),
        patch("configmaps/a", {"binaryData": {"b": "AQID"}, "immutable": False}, MERGE),
        create("deployments", _TWO),
        patch("deployments/web", _containers({"name": "z", "image": "z:1"}), MERGE),
        patch("deployments/web", {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 0}}}}, MERGE),
        patch("deployments/web", {"spec": {"replicas": None}}, MERGE),
    ),
    case(
        "a JSON patch adds, replaces, removes, moves and copies",
        create("configmaps", labelled(config_map("a", x="1"), l="v")),
        patch("configmaps/a", _ops(("add", "/data/y", "2")), JSON_PATCH),
        patch("configmaps/a", _ops(("replace", "/data/x", "3")), JSON_PATCH),
        patch("configmaps/a", _ops(("remove", "/data/x")), JSON_PATCH),
        patch("configmaps/a", [{"op": "move", "from": "/data/y", "path": "/data/z"}], JSON_PATCH),
        patch("configmaps/a", [{"op": "copy", "from": "/data/z", "path": "/data/w"}], JSON_PATCH),
        patch("configmaps/a", _ops(("add", "/metadata/annotations", {"a~1b": "x"})), JSON_PATCH),
        patch("configmaps/a", _ops(("add", "/metadata/labels/example.com~1x", "y")), JSON_PATCH),
        patch("configmaps/a", _ops(("add", "/metadata/finalizers", ["x.io/a"])), JSON_PATCH),
        patch("configmaps/a", _ops(("add", "/metadata/finalizers/-", "x.io/b")), JSON_PATCH),
        patch("configmaps/a", _ops(("add", "/metadata/finalizers/0", "x.io/c")), JSON_PATCH),
        patch("configmaps/a", _ops(("remove", "/metadata/finalizers/1")), JSON_PATCH),
        patch("configmaps/a", _ops(("test", "/data/z", "2"), ("replace", "/data/z", "5")), JSON_PATCH),
    ),
    case(
        "a JSON patch that fails changes nothing",
        create("configmaps", config_map("a", x="1")),
        patch("configmaps/a", _ops(("replace", "/data/x", "9"), ("test", "/data/x", "1")), JSON_PATCH),
        patch("configmaps/a", _ops(("test", "/data/none", "1")), JSON_PATCH),
        patch("configmaps/a", _ops(("remove", "/data/none")), JSON_PATCH),
        patch("configmaps/a", _ops(("replace", "/data/none", "x")), JSON_PATCH),
        patch("configmaps/a", _ops(("add", "/nowhere/at/all", "x")), JSON_PATCH),
        patch("configmaps/a", _ops(("sideways", "/data/x", "x")), JSON_PATCH),
        patch("configmaps/a", _ops(("add", "data/x", "x")), JSON_PATCH),
        patch("configmaps/a", "{}", JSON_PATCH),
        patch("configmaps/a", "not json", JSON_PATCH),
        patch("configmaps/a", [{"op": "move", "from": "/data/none", "path": "/data/z"}], JSON_PATCH),
        patch("configmaps/a", _ops(("replace", "/data/x", 5)), JSON_PATCH),
        get("configmaps/a"),
    ),
    case(
        "a null in a strategic merge patch removes",
        create("deployments", deployment(minReadySeconds=5, revisionHistoryLimit=3)),
        patch(
            "deployments/web", {"spec": {"minReadySeconds": None, "revisionHistoryLimit": None}}, STRATEGIC
        ),
        patch("deployments/web", {"metadata": {"annotations": {"a": "1"}}}),
        patch("deployments/web", {"metadata": {"annotations": None}}),
        patch("deployments/web", {"spec": {"template": {"metadata": {"labels": None}}}}),
    ),
]
