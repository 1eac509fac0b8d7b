"""Commands that change objects, with their flags: rollout, set, scale, expose, create, migrate.

Pure: data for tree.py.
"""

from typing import Final

from pykruise.cli.kubectl.command import (
    ALL,
    CHANGES,
    DRY_RUN,
    FILES,
    MANAGER,
    OUTPUT,
    RECORD,
    SELECTOR,
    SETS,
    TIMEOUT,
    TYPES,
    Command,
    number,
    switch,
    text,
)
from pykruise.cli.kubectl.flags import KubectlFlag

ROLLOUT: Final = Command(
    name="rollout",
    short="Manage the rollout of one or many resources",
    group="Deploy",
    children=(
        Command(
            name="status",
            short="Show the status of the rollout",
            usage=f"{TYPES}… [flags]",
            run="rollout_status:show_status",
            flags=(
                *FILES,
                SELECTOR,
                switch("watch", "Wait until the rollout is done.", "w", "true"),
                number("revision", "Revision that must be running."),
                TIMEOUT,
                switch(
                    "detail",
                    "Show the names of the updated pods, for kinds with status.updateRevision.",
                    "d",
                ),
                text("until", "partition: stop when all pods except those of the partition are updated."),
                text("output", "json: one object for each rollout, at the end.", "o"),
            ),
            examples=(
                "rollout status clone/web --timeout=5m",
                "rollout status clone/web asts/db --until=partition",
            ),
        ),
        Command(
            name="history",
            short="View rollout history",
            usage=f"{TYPES} [flags]",
            run="rollout:show_history",
            flags=(
                *FILES,
                *OUTPUT,
                SELECTOR,
                number("revision", "Show this revision in full."),
                switch("diff", "Show the changes of each revision."),
            ),
            examples=("rollout history clone/web --diff",),
        ),
        Command(
            name="undo",
            short="Undo a previous rollout",
            usage=f"{TYPES} [flags]",
            run="rollout:undo",
            flags=(
                *CHANGES,
                DRY_RUN,
                number("to-revision", "The revision to roll back to; 0: the previous one."),
                switch("fast", "Return a Rollout to the earlier step with the most replicas and no traffic."),
            ),
            examples=("rollout undo clone/web --to-revision=3 --dry-run=client",),
        ),
        Command(
            name="pause",
            short="Mark the provided resource as paused",
            usage="RESOURCE",
            run="rollout:pause",
            flags=CHANGES,
            examples=("rollout pause clone/web",),
        ),
        Command(
            name="resume",
            short="Resume a paused resource",
            usage="RESOURCE",
            run="rollout:resume",
            flags=CHANGES,
            examples=("rollout resume clone/web",),
        ),
        Command(
            name="restart",
            short="Restart a resource",
            usage="RESOURCE",
            run="rollout:restart",
            flags=CHANGES,
            examples=("rollout restart clone/web",),
        ),
        Command(
            name="approve",
            short="Approve the paused step of a Rollout",
            usage="RESOURCE",
            run="rollout:approve",
            flags=CHANGES,
            examples=("rollout approve rollouts/web",),
        ),
    ),
)


def _set_command(
    name: str,
    short: str,
    usage: str,
    run: str,
    *flags: KubectlFlag,
    aliases: tuple[str, ...] = (),
    examples: tuple[str, ...] = (),
) -> Command:
    return Command(
        name=name,
        short=short,
        usage=usage,
        run=run,
        flags=(*SETS, *flags),
        aliases=aliases,
        examples=examples,
    )


_CONTAINERS: Final = text("containers", "Names of the containers; * matches all.", "c", "*")

SET: Final = Command(
    name="set",
    short="Set specific features on objects",
    group="Deploy",
    children=(
        _set_command(
            "image",
            "Update the image of a pod template",
            "(-f FILENAME | TYPE NAME) CONTAINER=IMAGE…",
            "setting:set_image",
            examples=("set image clone/web nginx=nginx:1.27", "set image sidecarset/log '*=fluentd:v2'"),
        ),
        _set_command(
            "env",
            "Update environment variables on a pod template",
            "RESOURCE/NAME KEY=VALUE… KEY-…",
            "environment:set_env",
            _CONTAINERS,
            KubectlFlag(name="env", short="e", type="list", help="KEY=VALUE; - reads lines from stdin."),
            text("from", "secret/NAME or configmap/NAME whose keys become variables."),
            KubectlFlag(name="keys", type="words", help="Use only these keys of --from."),
            text("prefix", "Prefix of the name of each variable."),
            switch("list", "Show the variables and change nothing."),
            switch("resolve", "With --list: show values instead of references."),
            switch("overwrite", "Change existing variables too.", default="true"),
            examples=("set env asts/db LOG=debug OLD-", "set env clone/web --list"),
        ),
        _set_command(
            "resources",
            "Update resource requests/limits on objects with pod templates",
            "(-f FILENAME | TYPE NAME) [--limits=LIMITS] [--requests=REQUESTS]",
            "setting:set_resources",
            _CONTAINERS,
            text("limits", "Limits, such as cpu=200m,memory=512Mi."),
            text("requests", "Requests, such as cpu=100m."),
            examples=("set resources clone/web -c nginx --limits=cpu=500m,memory=256Mi",),
        ),
        _set_command(
            "serviceaccount",
            "Update the service account of a resource",
            "(-f FILENAME | TYPE NAME) SERVICE_ACCOUNT",
            "setting:set_service_account",
            aliases=("sa",),
            examples=("set serviceaccount clone/web robot",),
        ),
        _set_command(
            "selector",
            "Set the selector on a resource",
            "(-f FILENAME | TYPE NAME) EXPRESSIONS",
            "setting:set_selector",
            text("resource-version", "Change the object only if it has this resourceVersion."),
            examples=("set selector service web 'app=web,tier=front'",),
        ),
        _set_command(
            "subject",
            "Update the user, group, or service account in a role binding or cluster role binding",
            "(-f FILENAME | TYPE NAME) [--user=USER] [--group=GROUP] [--serviceaccount=NAMESPACE:NAME]",
            "setting:set_subject",
            KubectlFlag(name="user", type="list", help="A user; repeat the flag for several users."),
            KubectlFlag(name="group", type="list", help="A group; repeat the flag for several groups."),
            KubectlFlag(
                name="serviceaccount",
                type="list",
                help="A service account, as namespace:name; repeat the flag for several accounts.",
            ),
            examples=("set subject rolebinding deployers --serviceaccount=shop:robot",),
        ),
        _set_command(
            "partition",
            "Set how many pods keep the older revision",
            "TYPE/NAME VALUE",
            "setting:set_amount",
            examples=(
                "set partition clone/web 20%",
                "set partition ud/web 2",
                "set partition ud/web a=2,b=0",
            ),
        ),
        _set_command(
            "maxunavailable",
            "Set how many pods may be unavailable during a rollout",
            "TYPE/NAME VALUE",
            "setting:set_amount",
            examples=("set maxunavailable clone/web 10%",),
        ),
        _set_command(
            "maxsurge",
            "Set how many pods may exist beyond replicas",
            "TYPE/NAME VALUE",
            "setting:set_amount",
            examples=("set maxsurge clone/web 2",),
        ),
        _set_command(
            "update-strategy",
            "Set how pods are updated",
            "TYPE/NAME STRATEGY",
            "setting:update_strategy",
            examples=("set update-strategy clone/web InPlaceIfPossible",),
        ),
    ),
)

SCALE: Final = Command(
    name="scale",
    short="Set a new size for a workload",
    usage="--replicas=COUNT (-f FILENAME | TYPE NAME)",
    group="Deploy",
    run="scaling:scale",
    flags=(
        *CHANGES,
        ALL,
        DRY_RUN,
        RECORD,
        TIMEOUT,
        number("replicas", "Desired number of pods."),
        number("current-replicas", "Scale only if this is the current number of replicas.", "-1"),
        text("resource-version", "Change the object only if it has this resourceVersion."),
    ),
    examples=("scale clone/web --replicas=5",),
)

SCALEDOWN: Final = Command(
    name="scaledown",
    short="Scale down and choose the pods to delete",
    usage="(TYPE NAME | TYPE/NAME) --pods POD1,POD2",
    group="Deploy",
    run="scaling:scale_down",
    flags=(*CHANGES, DRY_RUN, KubectlFlag(name="pods", type="words", help="Names of the pods to delete.")),
    examples=("scaledown clone/web --pods web-a,web-b",),
)

AUTOSCALE: Final = Command(
    name="autoscale",
    short="Let a HorizontalPodAutoscaler scale a workload",
    usage="(-f FILENAME | TYPE NAME | TYPE/NAME) [--min=MINPODS] --max=MAXPODS [--cpu=CPU] [--memory=MEMORY]",
    group="Deploy",
    run="scaling:autoscale",
    flags=(
        *CHANGES,
        DRY_RUN,
        RECORD,
        number("min", "Minimum number of pods.", "-1"),
        number("max", "Maximum number of pods.", "-1"),
        text("cpu", "Target CPU usage: a percentage of the request (80%) or an amount (500m, or 500)."),
        text(
            "memory", "Target memory usage: a percentage of the request (80%) or an amount (500Mi, or 500)."
        ),
        KubectlFlag(
            name="cpu-percent",
            type="int",
            default="-1",
            help="Use --cpu.",
            deprecated="Use --cpu with percentage or resource quantity format (e.g., '70%' for utilization or"
            " '500m' for milliCPU).",
        ),
        text("name", "Name of the autoscaler."),
        switch("save-config", "Store the configuration in the annotation of kubectl apply."),
    ),
    examples=("autoscale clone/web --min=2 --max=10 --cpu=80%",),
)

EXPOSE: Final = Command(
    name="expose",
    short="Expose a workload by a Service",
    usage="(-f FILENAME | TYPE NAME) [--port=PORT] [--target-port=NUMBER-OR-NAME]",
    group="Deploy",
    run="scaling:expose",
    flags=(
        *FILES,
        *OUTPUT,
        DRY_RUN,
        MANAGER,
        RECORD,
        text("port", "Port of the Service (default: the port of the container)."),
        text("target-port", "Port of the containers, by number or name."),
        text("container-port", "Same as --target-port."),
        text("protocol", "Protocol: TCP, UDP or SCTP."),
        text("name", "Name of the Service."),
        text("type", "Type of the Service: ClusterIP, NodePort, LoadBalancer or ExternalName."),
        text("selector", "Labels of the pods of the Service (default: the selector of the object)."),
        text("labels", "Labels of the Service.", "l"),
        text("external-ip", "External address."),
        text("load-balancer-ip", "Address of the load balancer."),
        text("cluster-ip", "ClusterIP of the Service; None creates a headless Service."),
        text("session-affinity", "Session affinity: None or ClientIP."),
        text("overrides", "JSON that changes the Service."),
        text("override-type", "Type of --overrides: json, merge or strategic.", default="merge"),
        text("generator", "Not used: service/v1 or service/v2."),
        switch("save-config", "Store the configuration in the annotation of kubectl apply."),
    ),
    examples=("expose clone/web --port=80 --target-port=8080",),
)

_CREATES: Final = (
    *OUTPUT,
    DRY_RUN,
    MANAGER,
    switch("save-config", "Store the configuration in the annotation of kubectl apply."),
    text("validate", "Not used: the API server validates.", default="strict", alone="strict"),
)
_WAITS: Final = (switch("wait", "Wait until the object has ended; exit code 1 if it failed."), TIMEOUT)
_TTL: Final = number("ttl", "Seconds from the end of the job until the job is deleted.")
_PULLS: Final = (
    *_CREATES,
    *_WAITS,
    KubectlFlag(name="image", type="list", help="The image; repeat the flag for several images."),
    KubectlFlag(name="nodes", type="words", help="Names of the nodes."),
    text("node-selector", "Labels of the nodes: KEY=VALUE,…"),
    text("pod-selector", "Labels of pods, whose nodes pull: KEY=VALUE,…"),
    text("parallelism", "Number or percentage of nodes that pull at the same time."),
    KubectlFlag(name="secret", type="words", help="Pull secrets."),
    switch("never", "Never complete the job, so that new nodes pull, too."),
    number("job-timeout", "Time limit of the job in seconds (activeDeadlineSeconds)."),
    number("pull-timeout", "Time limit of a pull in seconds."),
    number("backoff", "Number of retries of a pull."),
    _TTL,
    switch("always-pull", "Pull images also on nodes that already have them."),
)


def _create_command(
    name: str,
    short: str,
    usage: str,
    run: str,
    *flags: KubectlFlag,
    aliases: tuple[str, ...] = (),
    examples: tuple[str, ...] = (),
) -> Command:
    return Command(
        name=name,
        short=short,
        usage=f"NAME {usage}",
        run=f"creating:create_{run}",
        flags=flags,
        aliases=aliases,
        takes="nothing",
        examples=examples,
    )


_JOB: Final = (
    *_CREATES,
    *_WAITS,
    text("image", "Image of the container."),
    text("from", "cronjob/NAME or acj/NAME with the job's template."),
)

CREATE: Final = Command(
    name="create",
    short="Create a job, a ContainerRecreateRequest or a PodProbeMarker; kubectl creates all else",
    usage="-f FILENAME",
    group="Deploy",
    run="delegate:to_kubectl",
    takes="kubectl",
    children=(
        _create_command(
            "job",
            "Create a job",
            "(--image=IMAGE | --from=cronjob/NAME|acj/NAME) [-- COMMAND…]",
            "job",
            *_JOB,
            examples=("create job now --from acj/nightly", "create job once --image busybox -- date"),
        ),
        _create_command(
            "broadcastjob",
            "Create a BroadcastJob",
            "(--image=IMAGE | --from=acj/NAME) [-- COMMAND…]",
            "broadcast_job",
            *_JOB,
            aliases=("broadcastJob", "BroadcastJob"),
            examples=("create broadcastJob now --from acj/nightly",),
        ),
        _create_command(
            "containerrecreaterequest",
            "Recreate containers of a running pod",
            "--pod=POD [--containers=a,b]",
            "container_recreate_request",
            *_CREATES,
            *_WAITS,
            text("pod", "The pod.", "p"),
            KubectlFlag(
                name="containers", type="words", help="Names of the containers (default: all containers)."
            ),
            number(
                "unreadyGracePeriodSeconds",
                "Seconds for which the pod is not ready before its containers are stopped.",
                "3",
                "u",
            ),
            number("minStartedSeconds", "Seconds that a container must run to count as started.", "3", "m"),
            number(
                "terminationGracePeriodSeconds",
                "Grace period in seconds; -1 uses the grace period of the pod.",
                "-1",
            ),
            switch("ordered", "Recreate the containers sequentially."),
            switch("force", "Recreate a container even if preStop fails."),
            text("failure-policy", "Failure policy: Fail or Ignore.", default="Fail"),
            number("active-deadline-seconds", "Time limit of the request in seconds.", "300"),
            number("ttl", "Seconds from the end of the request until the request is deleted.", "1800"),
            aliases=("ContainerRecreateRequest", "crr"),
            examples=("create ContainerRecreateRequest restart-1 --pod web-a --containers nginx",),
        ),
        _create_command(
            "imagepulljob",
            "Pull an image on nodes",
            "--image=IMAGE",
            "image_pull_job",
            *_PULLS,
            aliases=("ImagePullJob",),
            examples=("create imagepulljob web-next --image nginx:1.28",),
        ),
        _create_command(
            "imagelistpulljob",
            "Pull images on nodes",
            "--image=IMAGE --image=IMAGE…",
            "image_list_pull_job",
            *_PULLS,
            aliases=("ImageListPullJob",),
            examples=("create imagelistpulljob next --image nginx:1.28 --image redis:8",),
        ),
        _create_command(
            "ephemeraljob",
            "Add a container for debugging to running pods",
            "--image=IMAGE --pod-selector=KEY=VALUE [-- COMMAND…]",
            "ephemeral_job",
            *_CREATES,
            text("image", "Image of the container."),
            text("pod-selector", "Labels of the pods: KEY=VALUE,…"),
            text("container", "Name of the container."),
            text("target", "Container of the pod whose processes the new container sees."),
            _TTL,
            aliases=("EphemeralJob",),
            examples=("create ephemeraljob look --image busybox --pod-selector app=web -- sleep 600",),
        ),
        _create_command(
            "podprobemarker",
            "Probe pods with a command, and store the result as a condition",
            "--pod-selector=KEY=VALUE --container=NAME -- COMMAND…",
            "pod_probe_marker",
            *_CREATES,
            text("pod-selector", "Labels of the pods: KEY=VALUE,…"),
            text("container", "Container that runs the command."),
            text("condition", "Type of the condition that stores the result in the pods."),
            aliases=("PodProbeMarker",),
            examples=("create podprobemarker idle --pod-selector app=web --container main -- /bin/is-idle",),
        ),
    ),
)

MIGRATE: Final = Command(
    name="migrate",
    short="Move a Deployment's replicas to a CloneSet, or let an Advanced StatefulSet or DaemonSet adopt pods",
    usage="(CloneSet --from Deployment [--create] | KIND --from KIND) -n NAMESPACE --src-name NAME [--dst-name NAME]",
    group="Deploy",
    run="migrating:migrate",
    takes="nothing",
    flags=(
        DRY_RUN,
        text(
            "from",
            "Kind of the source: Deployment for a CloneSet, otherwise the target's kind; without"
            " .GROUP, the group is apps.",
        ),
        text("src-name", "Name of the source."),
        text(
            "dst-name", "Name of the target (default for a StatefulSet or DaemonSet: the name of the source)."
        ),
        switch("create", "Create the CloneSet."),
        switch("copy", "With --create: copy the Deployment's replicas; otherwise the CloneSet has none."),
        switch("plan", "Print the plan, and change nothing."),
        number("replicas", "Number of pods to move; -1 moves all pods.", "-1"),
        number("max-surge", "Maximum number of additional pods during the migration.", "1"),
        number(
            "timeout-seconds",
            "Time limit in seconds; 0 or -1 means no limit for a CloneSet, and 60 seconds for other kinds.",
            "-1",
        ),
    ),
    examples=(
        "migrate StatefulSet --from StatefulSet -n prod --src-name db --plan",
        "migrate DaemonSet --from DaemonSet -n prod --src-name agent",
        "migrate statefulsets.apps --from statefulsets.apps.kruise.io -n prod --src-name db",
        "migrate CloneSet --from Deployment -n prod --src-name web --dst-name web-cs --create",
        "migrate CloneSet --from Deployment -n prod --src-name web --dst-name web-cs --max-surge 2 --plan",
    ),
)
