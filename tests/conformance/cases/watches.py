"""Watches: their events, the order of events, resource versions and selectors."""

from conformance.builders import config_map, crd, labelled, pod, with_
from conformance.dsl import MERGE, case, create, define, delete, patch, watch

_META = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
_SINCE_1 = {"resourceVersion": "${1.metadata.resourceVersion}"}


CASES = [
    case(
        "a watch tells every change in order",
        create("configmaps", config_map("a")),
        create("configmaps", config_map("b", x="1")),
        patch("configmaps/b", {"data": {"x": "2"}}, MERGE),
        patch("configmaps/b", {"data": {"x": "2"}}, MERGE),
        delete("configmaps/b"),
        create("configmaps", config_map("b")),
        watch("configmaps", **_SINCE_1),
        watch("configmaps", resourceVersion="${3.metadata.resourceVersion}"),
    ),
    case(
        "a watch that is open gets what happens",
        create("configmaps", config_map("a")),
        watch(
            "configmaps",
            create("configmaps", config_map("b")),
            patch("configmaps/a", {"data": {"x": "2"}}, MERGE),
            delete("configmaps/b"),
            **_SINCE_1,
        ),
    ),
    case(
        "an object that enters a selection is added and one that leaves it is deleted",
        create("configmaps", labelled(config_map("a"), app="web")),
        patch("configmaps/a", {"metadata": {"labels": {"app": "db"}}}),
        patch("configmaps/a", {"data": {"x": "1"}}),
        patch("configmaps/a", {"metadata": {"labels": {"app": "web"}}}),
        patch("configmaps/a", {"data": {"x": "2"}}),
        delete("configmaps/a"),
        watch("configmaps", labelSelector="app=web", **_SINCE_1),
        watch("configmaps", labelSelector="app=db", **_SINCE_1),
        watch("configmaps", labelSelector="app", **_SINCE_1),
        watch("configmaps", labelSelector="app in", **_SINCE_1),
    ),
    case(
        "a watch by field follows the field",
        create("pods", pod("a")),
        create("pods", pod("b")),
        patch("pods/b/status", {"status": {"phase": "Running"}}),
        patch("pods/b/status", {"status": {"phase": "Succeeded"}}),
        watch("pods", fieldSelector="status.phase=Running", **_SINCE_1),
        watch("pods", fieldSelector="metadata.name=b,status.phase!=Running", **_SINCE_1),
        watch("configmaps", fieldSelector="spec.nodeName=x", **_SINCE_1),
    ),
    case(
        "a watch without a version begins with what is there",
        create("configmaps", config_map("a")),
        create("configmaps", config_map("b")),
        watch("configmaps"),
        watch("configmaps", resourceVersion="0"),
        watch("configmaps", fieldSelector="metadata.name=b"),
    ),
    case(
        "a watch from a version that is too old gets an error",
        create("configmaps", config_map("a")),
        watch("configmaps", resourceVersion="1"),
        watch("configmaps", resourceVersion="x"),
    ),
    case(
        "a streamed list ends with a bookmark",
        create("configmaps", config_map("a")),
        create("configmaps", config_map("b")),
        watch(
            "configmaps",
            sendInitialEvents="true",
            resourceVersionMatch="NotOlderThan",
            allowWatchBookmarks="true",
        ),
        watch("configmaps", sendInitialEvents="true"),
        watch("configmaps", sendInitialEvents="true", resourceVersionMatch="Exact", resourceVersion="5"),
        watch("configmaps", resourceVersionMatch="NotOlderThan", **_SINCE_1),
        watch(
            "configmaps",
            sendInitialEvents="false",
            resourceVersionMatch="NotOlderThan",
            allowWatchBookmarks="true",
            **_SINCE_1,
        ),
    ),
    case(
        "a watch shows objects in the form that is asked for",
        create("configmaps", config_map("a")),
        create("configmaps", labelled(config_map("b"), l="v")),
        delete("configmaps/b"),
        watch("configmaps", accept=_META, **_SINCE_1),
        watch("configmaps", accept=_TABLE, **_SINCE_1),
    ),
    case(
        "deletion with finalizers is a change and then a deletion",
        create("configmaps", config_map("a")),
        create("configmaps", with_(config_map("b"), finalizers=["x.io/a"])),
        delete("configmaps/b"),
        patch("configmaps/b", {"metadata": {"finalizers": None}}, MERGE),
        watch("configmaps", **_SINCE_1),
    ),
    case(
        "a pod's graceful deletion is two changes",
        create("pods", pod("a")),
        create("pods", pod("b", nodeName="n1")),
        delete("pods/b"),
        delete("pods/b", gracePeriodSeconds="0"),
        watch("pods", **_SINCE_1),
    ),
    case(
        "a custom resource is watched like any other",
        define(crd()),
        create(
            "widgets@v1", {"apiVersion": "$ns.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
        ),
        create(
            "widgets@v1",
            {
                "apiVersion": "$ns.example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "b"},
                "spec": {"x": 1},
            },
        ),
        patch("widgets@v1/b", {"spec": {"x": 2}}, MERGE),
        delete("widgets@v1/b"),
        watch("widgets@v1", resourceVersion="${2.metadata.resourceVersion}"),
        watch("widgets@v1", resourceVersion="${2.metadata.resourceVersion}", fieldSelector="metadata.name=a"),
    ),
    case(
        "one object is watched by the old path and by name",
        create("configmaps", config_map("a")),
        create("configmaps", config_map("b")),
        patch("configmaps/a", {"data": {"x": "1"}}),
        watch("configmaps", fieldSelector="metadata.name=a", **_SINCE_1),
        watch("/api/v1/watch/namespaces/$ns/configmaps/a", **_SINCE_1),
    ),
]
