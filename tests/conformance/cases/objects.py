"""Operations on any object: create, read, replace; metadata, versions and generations."""

from conformance.builders import config_map, container, deployment, labelled, pod, with_
from conformance.dsl import JSON_PATCH, MERGE, based_on, case, create, delete, get, patch, put

CASES = [
    case(
        "an object is created, read, replaced and deleted",
        create("configmaps", config_map("a", x="1")),
        get("configmaps/a"),
        put("configmaps/a", based_on(2, {"data": {"x": "2"}})),
        get("configmaps/a"),
        delete("configmaps/a"),
        get("configmaps/a"),
    ),
    case(
        "what is not there is not found, whatever is done to it",
        get("configmaps/none"),
        put("configmaps/none", config_map("none")),
        patch("configmaps/none", {"data": {"x": "1"}}),
        patch("configmaps/none", {"data": {"x": "1"}}, MERGE),
        delete("configmaps/none"),
        get("deployments/none"),
        get("deployments/none/scale"),
        get("/api/v1/namespaces/no-such-namespace/configmaps"),
        get("/api/v1/namespaces/no-such-namespace"),
        create("/api/v1/namespaces/no-such-namespace/configmaps", config_map("a")),
    ),
    case(
        "a name is taken only once",
        create("configmaps", config_map("a")),
        create("configmaps", config_map("a")),
        delete("configmaps/a"),
        create("configmaps", config_map("a")),
    ),
    case(
        "a PUT of a kind that may be created so creates it",
        put("leases/a", {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}),
        put("leases/a", {"metadata": {"name": "a"}, "spec": {"holderIdentity": "you"}}),
        put("leases/a", based_on(1, {"spec": {"holderIdentity": "them"}})),
        put("roles/a", {"metadata": {"name": "a"}, "rules": []}),
    ),
    case(
        "an old resourceVersion is a conflict and none at all is not",
        create("configmaps", config_map("a", x="1")),
        put("configmaps/a", based_on(1, {"data": {"x": "2"}})),
        put("configmaps/a", based_on(1, {"data": {"x": "3"}})),
        put("configmaps/a", config_map("a", x="4")),
        put("configmaps/a", with_(config_map("a", x="5"), resourceVersion="0")),
        put("configmaps/a", with_(config_map("a", x="5"), resourceVersion="abc")),
        patch("configmaps/a", {"metadata": {"resourceVersion": "${1.metadata.resourceVersion}"}}, MERGE),
        patch(
            "configmaps/a",
            {"metadata": {"resourceVersion": "${1.metadata.resourceVersion}"}, "data": {"x": "6"}},
            MERGE,
        ),
        patch("configmaps/a", {"metadata": {"resourceVersion": "${1.metadata.resourceVersion}"}}),
    ),
    case(
        "the uid of a PUT is a precondition",
        create("configmaps", config_map("a")),
        put("configmaps/a", with_(config_map("a", x="1"), uid="4bd0f1d8-3b4e-4a55-9a10-2b3a7a3f7f65")),
        put("configmaps/a", with_(config_map("a", x="1"), uid="${1.metadata.uid}")),
        patch("configmaps/a", {"metadata": {"uid": "4bd0f1d8-3b4e-4a55-9a10-2b3a7a3f7f65"}}, MERGE),
        patch("configmaps/a", {"metadata": {"uid": "4bd0f1d8-3b4e-4a55-9a10-2b3a7a3f7f65"}}),
    ),
    case(
        "what changes nothing is not written",
        create("deployments", deployment(replicas=2)),
        put("deployments/web", based_on(1)),
        put("deployments/web", deployment(replicas=2)),
        patch("deployments/web", {"spec": {"replicas": 2}}),
        patch("deployments/web", {"spec": {"replicas": 2}}, MERGE),
        patch("deployments/web", [{"op": "test", "path": "/spec/replicas", "value": 2}], JSON_PATCH),
        patch("deployments/web", {}, MERGE),
        patch("deployments/web", {}),
        patch("deployments/web", [], JSON_PATCH),
        get("deployments/web"),
    ),
    case(
        "the generation counts changes of the spec and nothing else",
        create("deployments", deployment()),
        patch("deployments/web", {"spec": {"replicas": 3}}),
        patch("deployments/web", {"metadata": {"labels": {"a": "b"}}}),
        patch("deployments/web", {"metadata": {"annotations": {"a": "b"}}}),
        patch("deployments/web/status", {"status": {"replicas": 3, "observedGeneration": 2}}),
        patch("deployments/web", {"spec": {"paused": True}}, MERGE),
        patch("deployments/web", {"metadata": {"generation": 99}}, MERGE),
    ),
    case(
        "the main endpoint keeps the status and the status endpoint the spec",
        create("deployments", {**deployment(), "status": {"replicas": 7}}),
        patch("deployments/web", {"spec": {"replicas": 3}, "status": {"replicas": 8}}, MERGE),
        patch(
            "deployments/web/status",
            {"spec": {"replicas": 9}, "status": {"replicas": 3, "readyReplicas": 2}},
            MERGE,
        ),
        patch(
            "deployments/web/status",
            {"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}, "status": {"readyReplicas": 1}},
            MERGE,
        ),
        put("deployments/web/status", based_on(3, {"status": {"replicas": 4}, "spec": {"replicas": 4}})),
        put(
            "deployments/web/status",
            based_on(4, {"status": {"replicas": 5}, "metadata": {"labels": {"z": "z"}}}),
        ),
        get("deployments/web/status"),
    ),
    case(
        "what only the server may say is ignored at creation",
        create(
            "configmaps",
            with_(
                config_map("a"),
                uid="4bd0f1d8-3b4e-4a55-9a10-2b3a7a3f7f65",
                creationTimestamp="2001-01-01T00:00:00Z",
                deletionTimestamp="2001-01-01T00:00:00Z",
                deletionGracePeriodSeconds=5,
                selfLink="/somewhere",
                generation=7,
            ),
        ),
        create("deployments", with_(deployment(), generation=7)),
        create("configmaps", with_(config_map("b"), resourceVersion="5")),
        create("configmaps", with_(config_map("c"), resourceVersion="0")),
    ),
    case(
        "what only the server may say is kept at an update",
        create("configmaps", config_map("a")),
        put("configmaps/a", with_(config_map("a", x="1"), creationTimestamp="2001-01-01T00:00:00Z")),
        patch("configmaps/a", {"metadata": {"creationTimestamp": None}}, MERGE),
        patch("configmaps/a", {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}, MERGE),
        patch("configmaps/a", {"metadata": {"name": "b"}}, MERGE),
        patch("configmaps/a", {"metadata": {"namespace": "elsewhere"}}, MERGE),
        put("configmaps/a", with_(config_map("a"), generateName="x-")),
    ),
    case(
        "a name is generated from its beginning",
        create("configmaps", {"metadata": {"generateName": "gen-"}}),
        create("configmaps", {"metadata": {"generateName": "gen-", "name": "own"}}),
        create("configmaps", {"metadata": {"generateName": "Gen_"}}, only=("reason", "details.causes.0")),
        create(
            "configmaps",
            {"metadata": {"generateName": "x" * 70 + "-"}},
            only=("metadata.generateName", "kind"),
        ),
        create("configmaps", {"metadata": {}}),
        create("pods", {**pod("x"), "metadata": {"generateName": "web-"}}),
    ),
    case(
        "names must be names",
        create("configmaps", config_map("Upper")),
        create("configmaps", config_map("a.b")),
        create("configmaps", config_map("a_b")),
        create("configmaps", config_map("x" * 254)),
        create("configmaps", config_map("-a")),
        create("configmaps", config_map("a/b")),
        create("configmaps", config_map("..")),
        create("pods", pod("a.b.c")),
        create("services", {"metadata": {"name": "1abc"}, "spec": {"ports": [{"port": 1}]}}),
        create("deployments", deployment("Web")),
        create("namespaces", {"metadata": {"name": "a.b"}}),
    ),
    case(
        "labels and annotations must be well formed",
        create("configmaps", labelled(config_map("a"), ok="a-b.c_d")),
        create("configmaps", labelled(config_map("b"), bad="has space")),
        create("configmaps", with_(config_map("b"), labels={"a/b/c": "x"})),
        create("configmaps", with_(config_map("b"), labels={"": "x"})),
        create("configmaps", with_(config_map("b"), labels={"x" * 64: "y"})),
        create("configmaps", with_(config_map("b"), labels={"x": "y" * 64})),
        create("configmaps", with_(config_map("b"), labels={"UPPER.example.com/x": "y"})),
        create("configmaps", with_(config_map("b"), annotations={"a b": "x"})),
        create("configmaps", with_(config_map("b"), annotations={"Example.com/Aa": "any thing"})),
        create("configmaps", with_(config_map("c"), annotations={"big": "x" * 262145})),
        patch("configmaps/a", {"metadata": {"labels": {"bad": "-x-"}}}),
        patch("configmaps/a", {"metadata": {"labels": {"ok": None}}}),
    ),
    case(
        "owner references must be whole, and one controller is enough",
        create(
            "configmaps",
            with_(
                config_map("a"),
                ownerReferences=[
                    {
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "name": "x",
                        "uid": "0c5f1a5e-4c0c-4d0a-8a0e-51a3a1e0c4c1",
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            ),
        ),
        create(
            "configmaps",
            with_(config_map("b"), ownerReferences=[{"apiVersion": "", "kind": "", "name": "", "uid": ""}]),
        ),
        create(
            "configmaps",
            with_(
                config_map("b"),
                ownerReferences=[{"apiVersion": "v1", "kind": "Event", "name": "x", "uid": "u"}],
            ),
        ),
        patch(
            "configmaps/a",
            {
                "metadata": {
                    "ownerReferences": [
                        {
                            "apiVersion": "apps/v1",
                            "kind": "ReplicaSet",
                            "name": "y",
                            "uid": "9f4c3d5c-86a9-4a0b-9d6e-0e5d2b7a1f00",
                            "controller": True,
                        }
                    ]
                }
            },
        ),
        patch(
            "configmaps/a",
            {
                "metadata": {
                    "ownerReferences": [{"uid": "0c5f1a5e-4c0c-4d0a-8a0e-51a3a1e0c4c1", "controller": False}]
                }
            },
        ),
        patch(
            "configmaps/a",
            {
                "metadata": {
                    "uid": "${1.metadata.uid}",
                    "ownerReferences": [{"$patch": "delete", "uid": "0c5f1a5e-4c0c-4d0a-8a0e-51a3a1e0c4c1"}],
                }
            },
        ),
        get("configmaps/a"),
    ),
    case(
        "finalizers must be qualified names",
        create("configmaps", with_(config_map("a"), finalizers=["example.com/one"])),
        create("configmaps", with_(config_map("b"), finalizers=["not qualified"])),
        create("configmaps", with_(config_map("b"), finalizers=["unqualified"])),
        create("configmaps", with_(config_map("b"), finalizers=["orphan", "foregroundDeletion"])),
        patch("configmaps/a", {"metadata": {"finalizers": ["example.com/two"]}}),
        patch("configmaps/a", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one"]}}),
        patch("configmaps/a", {"metadata": {"finalizers": ["example.com/three"]}}, MERGE),
        patch("configmaps/a", {"metadata": {"finalizers": None}}, MERGE),
    ),
    case(
        "a dry run answers as if and writes nothing",
        create("configmaps", config_map("a", x="1"), dryRun="All"),
        get("configmaps/a"),
        create("configmaps", config_map("a", x="1")),
        put("configmaps/a", config_map("a", x="2"), dryRun="All"),
        patch("configmaps/a", {"data": {"x": "3"}}, dryRun="All"),
        delete("configmaps/a", dryRun="All"),
        delete("configmaps/a", {"dryRun": ["All"]}),
        get("configmaps/a"),
        create("configmaps", config_map("a"), dryRun="All"),
        create("configmaps", config_map("b"), dryRun="Some"),
        patch("configmaps/a", {"data": {"x": "3"}}, dryRun="Some"),
        delete("configmaps/a", dryRun="Some"),
        create("deployments", deployment(), dryRun="All"),
    ),
    case(
        "a field manager has a name of printable characters",
        create("configmaps", config_map("a"), fieldManager="x" * 129),
        create("configmaps", config_map("a"), fieldManager="a\tb"),
        create("configmaps", config_map("a"), fieldManager="me"),
        patch("configmaps/a", {"data": {"x": "1"}}, force="true"),
    ),
    case(
        "a container named twice is one error and two errors come together",
        create("pods", pod("a", container("x"), container("x"))),
        create("pods", pod("a", container("X_y", image=""))),
        create("pods", {"metadata": {"name": "A"}, "spec": {"containers": []}}),
    ),
    case(
        "managed fields tell who wrote what",
        create("configmaps", config_map("a", x="1"), fieldManager="tester", only=("metadata.managedFields",)),
        patch(
            "configmaps/a",
            {"data": {"y": "2"}},
            MERGE,
            fieldManager="other",
            only=("metadata.managedFields",),
        ),
    ),
]
