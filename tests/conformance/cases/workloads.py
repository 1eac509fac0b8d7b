"""Workloads: defaults, validation, immutability, scale."""

from conformance.builders import container, deployment, template
from conformance.dsl import JSON_PATCH, MERGE, based_on, case, create, get, patch, put

_ONE_OFF = {"restartPolicy": "Never", "containers": [container()]}


def _job(name: str = "j", **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": _ONE_OFF}, **spec},
    }


def _indexed(name: str, **spec: object) -> dict[str, object]:
    return _job(name, **{"completionMode": "Indexed", "completions": 5, "parallelism": 2, **spec})


def _failing(*rules: dict[str, object]) -> dict[str, object]:
    return {"rules": list(rules)}


def _on_codes(action: str, *codes: int, **more: object) -> dict[str, object]:
    return {"action": action, "onExitCodes": {"operator": "In", "values": list(codes), **more}}


def _on_condition(action: str) -> dict[str, object]:
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget"}]}


def _succeeding(**rule: object) -> dict[str, object]:
    return {"rules": [rule]}


def _cron(name: str = "c", **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {
            "schedule": "*/5 * * * *",
            "jobTemplate": {"spec": {"template": {"spec": _ONE_OFF}}},
            **spec,
        },
    }


def _claim(name: str) -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }


def _set(**spec: object) -> dict[str, object]:
    return deployment(kind="StatefulSet", serviceName="web", **spec)


CASES = [
    case(
        "a stateful set may keep another number of revisions",
        create("statefulsets", _set()),
        patch("statefulsets/web", {"spec": {"revisionHistoryLimit": 3}}),
        patch("statefulsets/web", {"spec": {"revisionHistoryLimit": 2, "serviceName": "other"}}),
    ),
    case(
        "a deployment gets its defaults and must be valid",
        create("deployments", deployment()),
        create("deployments", deployment("b", replicas=-1)),
        create("deployments", deployment("b", selector={"matchLabels": {"app": "other"}})),
        create("deployments", deployment("b", selector={})),
        create("deployments", {"metadata": {"name": "b"}, "spec": {"template": template()}}),
        create(
            "deployments", deployment("b", strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}})
        ),
        create(
            "deployments", deployment("b", strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})
        ),
        create(
            "deployments",
            deployment("b", strategy={"rollingUpdate": {"maxSurge": "abc", "maxUnavailable": "150%"}}),
        ),
        create("deployments", deployment("b", strategy={"type": "Sideways"})),
        create("deployments", deployment("b", minReadySeconds=10, progressDeadlineSeconds=5)),
        create("deployments", deployment("b", template=template("web", restartPolicy="Never"))),
        create("deployments", deployment("b", template=template("web", activeDeadlineSeconds=5))),
        create("deployments", deployment("b", template={"metadata": {"labels": {"app": "web"}}, "spec": {}})),
        create("deployments", deployment("b", revisionHistoryLimit=-1, minReadySeconds=-1)),
        patch("deployments/web", {"spec": {"selector": {"matchLabels": {"app": "x"}}}}),
        patch("deployments/web", {"spec": {"template": {"metadata": {"labels": {"app": "x"}}}}}),
    ),
    case(
        "a deployment is scaled by its subresource",
        create("deployments", deployment(replicas=1)),
        get("deployments/web/scale"),
        patch("deployments/web/scale", {"spec": {"replicas": 3}}, MERGE),
        patch("deployments/web/scale", {"spec": {"replicas": 4}}),
        patch("deployments/web/scale", [{"op": "replace", "path": "/spec/replicas", "value": 5}], JSON_PATCH),
        put(
            "deployments/web/scale",
            based_on(2, {"metadata": {"resourceVersion": None}, "spec": {"replicas": 6}}),
        ),
        put("deployments/web/scale", based_on(2, {"spec": {"replicas": 7}})),
        patch("deployments/web/scale", {"spec": {"replicas": -1}}, MERGE),
        patch("deployments/web/scale", {"spec": {"replicas": "x"}}, MERGE),
        patch("deployments/none/scale", {"spec": {"replicas": 1}}, MERGE),
        put("deployments/web/scale", {"metadata": {"name": "other"}, "spec": {"replicas": 1}}),
        patch("deployments/web/scale", {"spec": {"replicas": 0}}, MERGE, dryRun="All"),
        get("deployments/web"),
    ),
    case(
        "a replica set gets its defaults and keeps its selector",
        create("replicasets", deployment(kind="ReplicaSet")),
        patch("replicasets/web", {"spec": {"replicas": 2}}),
        patch("replicasets/web", {"spec": {"selector": {"matchLabels": {"app": "x"}}}}, MERGE),
        patch("replicasets/web/status", {"status": {"replicas": 1, "readyReplicas": 2}}),
        patch(
            "replicasets/web/status",
            {"status": {"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 1}},
        ),
        get("replicasets/web/scale"),
        create("replicasets", deployment("b", kind="ReplicaSet", replicas=-2)),
    ),
    case(
        "of a stateful set only some of the spec may change",
        create("statefulsets", _set(volumeClaimTemplates=[_claim("data")])),
        patch(
            "statefulsets/web",
            {
                "spec": {
                    "replicas": 3,
                    "template": {"spec": {"containers": [{"name": "main", "image": "x:2"}]}},
                }
            },
        ),
        patch("statefulsets/web", {"spec": {"serviceName": "other"}}),
        patch("statefulsets/web", {"spec": {"podManagementPolicy": "Parallel"}}),
        patch("statefulsets/web", {"spec": {"volumeClaimTemplates": [_claim("more")]}}, MERGE),
        patch("statefulsets/web", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}}),
        patch("statefulsets/web", {"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}}),
        patch(
            "statefulsets/web", {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}}
        ),
        patch("statefulsets/web", {"spec": {"minReadySeconds": 5, "ordinals": {"start": 2}}}),
        get("statefulsets/web/scale"),
        create("statefulsets", {**_set(updateStrategy={"type": "Sideways"}), "metadata": {"name": "b"}}),
        create("statefulsets", {**_set(podManagementPolicy="Maybe"), "metadata": {"name": "b"}}),
    ),
    case(
        "a daemon set gets its defaults and must be valid",
        create("daemonsets", deployment(kind="DaemonSet")),
        create("daemonsets", deployment("b", kind="DaemonSet", updateStrategy={"type": "Sideways"})),
        create(
            "daemonsets",
            deployment("b", kind="DaemonSet", updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}),
        ),
        create(
            "daemonsets",
            deployment("b", kind="DaemonSet", template=template("web", restartPolicy="OnFailure")),
        ),
        patch(
            "daemonsets/web",
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x:2"}]}}}},
        ),
        patch(
            "daemonsets/web",
            {"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}}}},
        ),
        patch("daemonsets/web", {"spec": {"selector": {"matchLabels": {"app": "x"}}}}, MERGE),
    ),
    case(
        "a job gets its defaults, selector and labels and must be valid",
        create("jobs", _job()),
        create("jobs", _job("b", parallelism=-1)),
        create("jobs", _job("b", template={"spec": {"containers": [container()]}})),
        create("jobs", _job("b", completionMode="Indexed")),
        create(
            "jobs", _job("b", completionMode="Indexed", completions=3, parallelism=2, backoffLimitPerIndex=1)
        ),
        create("jobs", _job("c", manualSelector=True)),
        create(
            "jobs",
            _job(
                "c",
                manualSelector=True,
                selector={"matchLabels": {"x": "y"}},
                template={"metadata": {"labels": {"x": "y"}}, "spec": _ONE_OFF},
            ),
        ),
        create("jobs", _job("d", selector={"matchLabels": {"x": "y"}})),
        create("jobs", _job("d", suspend=True, ttlSecondsAfterFinished=5, activeDeadlineSeconds=10)),
        patch("jobs/j", {"spec": {"parallelism": 5}}, MERGE),
        patch("jobs/j", {"spec": {"completions": 5}}, MERGE),
        patch("jobs/j", {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x:2"}]}}}}),
        patch("jobs/d", {"spec": {"suspend": False}}, MERGE),
    ),
    case(
        "limits and policies of a job must go together",
        create("jobs", _indexed("a", backoffLimitPerIndex=1, maxFailedIndexes=2)),
        create("jobs", _indexed("b", maxFailedIndexes=2)),
        create("jobs", _indexed("b", backoffLimitPerIndex=-1, maxFailedIndexes=7)),
        create("jobs", _indexed("b", completions=100_001, parallelism=20_000, backoffLimitPerIndex=1)),
        create(
            "jobs",
            _indexed(
                "b", completions=100_001, parallelism=1, backoffLimitPerIndex=1, maxFailedIndexes=10_001
            ),
        ),
        create("jobs", _job("b", backoffLimitPerIndex=1, maxFailedIndexes=1)),
        create("jobs", _job("b", managedBy="me")),
        create("jobs", _job("b", managedBy="no_domain/me")),
        create("jobs", _job("b", managedBy="example.com/me")),
        patch("jobs/a", {"spec": {"maxFailedIndexes": 3}}, MERGE),
        patch("jobs/a", {"spec": {"backoffLimitPerIndex": 3}}, MERGE),
    ),
    case(
        "a failure policy must be one",
        create(
            "jobs",
            _indexed(
                "a",
                backoffLimitPerIndex=1,
                podFailurePolicy=_failing(
                    _on_codes("FailIndex", 42), _on_codes("Count", 1, 2), _on_condition("Ignore")
                ),
            ),
        ),
        *(
            create("jobs", _job("b", podFailurePolicy=_failing(rule)))
            for rule in (
                _on_codes("FailIndex", 42),
                _on_codes("Explode", 42),
                {"onExitCodes": {"operator": "In", "values": [1]}},
                {"action": "Count"},
                {**_on_codes("Count", 1), **_on_condition("Count")},
                _on_codes("Count"),
                _on_codes("Count", 0),
                _on_codes("Count", 3, 2, 2),
                {"action": "Count", "onExitCodes": {"operator": "About", "values": [1]}},
                {"action": "Count", "onExitCodes": {"values": [1]}},
                _on_codes("Count", 1, containerName="nobody"),
                _on_codes("Count", 1, containerName="main"),
                {"action": "Count", "onPodConditions": [{"type": "not right", "status": "Maybe"}]},
            )
        ),
        create("jobs", _job("c", podFailurePolicy={"rules": []})),
        create("jobs", _job("d", podFailurePolicy=_failing(*[_on_codes("Count", 1)] * 21))),
        patch("jobs/a", {"spec": {"podFailurePolicy": None}}, MERGE),
    ),
    case(
        "a success policy must be one",
        create("jobs", _indexed("a", successPolicy=_succeeding(succeededIndexes="0-1,3", succeededCount=2))),
        create("jobs", _job("b", successPolicy=_succeeding(succeededCount=1))),
        create("jobs", _indexed("b", successPolicy={"rules": []})),
        *(
            create("jobs", _indexed("b", successPolicy=_succeeding(**rule)))
            for rule in (
                {},
                {"succeededCount": -1},
                {"succeededCount": 6},
                {"succeededIndexes": "0,1", "succeededCount": 3},
                {"succeededIndexes": "1,1"},
                {"succeededIndexes": "2-1"},
                {"succeededIndexes": "0-1-2"},
                {"succeededIndexes": "x"},
                {"succeededIndexes": "0-y"},
                {"succeededIndexes": "5"},
                {"succeededIndexes": "0-9"},
            )
        ),
        create("jobs", _indexed("c", successPolicy=_succeeding(succeededIndexes=""))),
        patch("jobs/a", {"spec": {"successPolicy": {"rules": [{"succeededCount": 1}]}}}, MERGE),
    ),
    case(
        "a cron job gets its defaults and must be valid",
        create("cronjobs", _cron()),
        create("cronjobs", _cron("b", schedule="every day")),
        create("cronjobs", _cron("b", concurrencyPolicy="Maybe")),
        create("cronjobs", _cron("b", timeZone="No/Where")),
        create("cronjobs", _cron("b", successfulJobsHistoryLimit=-1)),
        create("cronjobs", _cron("x" * 53)),
        patch("cronjobs/c", {"spec": {"suspend": True}}, MERGE),
    ),
    case(
        "a schedule must be one that cron knows",
        *(
            create("cronjobs", _cron(f"b{number}", schedule=schedule))
            for number, schedule in enumerate(
                (
                    "60 * * * *",
                    "* * 0 * *",
                    "* * * * 7",
                    "*/0 * * * *",
                    "a * * * *",
                    "5-3 * * * *",
                    "@often",
                    "TZ=Europe/Berlin 0 12 * * *",
                )
            )
        ),
        *(
            create("cronjobs", _cron(f"g{number}", schedule=schedule), only=("spec.schedule",))
            for number, schedule in enumerate(
                ("*/15 1-5,7 ? jan-mar mon", "@every 1h30m", "@midnight", "5/20 * * * *", "0 0 30 2 *")
            )
        ),
    ),
    case(
        "a controller revision's data never change",
        create("controllerrevisions", {"metadata": {"name": "r"}, "revision": 1, "data": {"a": {"b": 1}}}),
        patch("controllerrevisions/r", {"revision": 2}, MERGE),
        patch("controllerrevisions/r", {"data": {"a": {"b": 2}}}, MERGE),
        create("controllerrevisions", {"metadata": {"name": "s"}, "revision": -1}),
        create("controllerrevisions", {"metadata": {"name": "s"}, "revision": 1}),
        patch("controllerrevisions/r", {"metadata": {"labels": {"a": "b"}}}),
    ),
    case(
        "a replication controller and a pod template are served too",
        create("replicationcontrollers", {"metadata": {"name": "r"}, "spec": {"template": template()}}),
        get("replicationcontrollers/r/scale"),
        create("podtemplates", {"metadata": {"name": "t"}, "template": template()}),
        create(
            "replicationcontrollers",
            {"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "template": template()}},
        ),
    ),
]
