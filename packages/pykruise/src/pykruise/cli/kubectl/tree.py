"""All commands with their flags, as data: what is parsed, what help shows, what is completed.

ROOT ──▶ lookup(argv) ──▶ the Command, its path, and the arguments that are left

Pure. `run` names a function that is loaded when the command is called.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pykruise.cli.kubectl.flags import Flag

__all__ = ["GLOBAL", "ROOT", "Command", "all_commands", "lookup"]


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One word of the command line."""

    name: str
    short: str
    """What it does, in one line."""
    usage: str = ""
    run: str = ""
    """`module:function` in this package; empty: its children do the work."""
    flags: tuple[Flag, ...] = ()
    aliases: tuple[str, ...] = ()
    children: tuple["Command", ...] = ()
    examples: tuple[str, ...] = ()
    takes: str = "resources"
    """What its arguments are: resources, nothing, words (none of them is a flag); or who does it: kubectl, pykruise."""
    group: str = ""
    """Under which heading the help shows it."""
    is_hidden: bool = False


def _text(name: str, help: str, short: str = "", default: str = "", alone: str = "") -> Flag:
    return Flag(name=name, help=help, short=short, default=default, alone=alone)


def _bool(name: str, help: str, short: str = "", default: str = "false") -> Flag:
    return Flag(name=name, help=help, short=short, type="bool", default=default)


def _int(name: str, help: str, default: str = "0", short: str = "") -> Flag:
    return Flag(name=name, help=help, short=short, type="int", default=default)


GLOBAL: Final = (
    _text("as", "Username to impersonate."),
    Flag(name="as-group", help="Group to impersonate, may be repeated.", type="list"),
    _text("as-uid", "UID to impersonate."),
    _text("cache-dir", "Not used: nothing is cached."),
    _text("certificate-authority", "File with the certificate authority."),
    _text("client-certificate", "File with a client certificate."),
    _text("client-key", "File with the key of a client certificate."),
    _text("cluster", "Cluster of the kubeconfig to use."),
    _text("context", "Context of the kubeconfig to use."),
    _bool("disable-compression", "Answers are never compressed."),
    _bool("insecure-skip-tls-verify", "Do not verify the server's certificate."),
    _text("kubeconfig", "The kubeconfig file."),
    _bool("match-server-version", "Not used: every served version will do."),
    _text("namespace", "The namespace.", "n"),
    _text("password", "Password for basic authentication."),
    _text("profile", "Not used.", default="none"),
    _text("profile-output", "Not used.", default="profile.pprof"),
    _text("proxy-url", "Proxy to the API server."),
    Flag(name="request-timeout", help="How long one request may take; 0: 30s.", type="seconds", default="0"),
    _text("server", "Address of the API server.", "s"),
    _text("tls-server-name", "Name in the server's certificate."),
    _text("token", "Bearer token."),
    _text("user", "User of the kubeconfig to use."),
    _text("username", "Username for basic authentication."),
    _int("v", "How much is said of requests; 6: a line for each.", short="v"),
    _bool("warnings-as-errors", "End with exit code 1 when the server warns."),
)
"""Flags of every command."""

_HELP: Final = _bool("help", "Show what the command does.", "h")

_FILES: Final = (
    Flag(
        name="filename",
        short="f",
        type="words",
        help="Files, folders or URLs with the objects; - reads stdin.",
    ),
    _text("kustomize", "A kustomization folder.", "k"),
    _bool("recursive", "Folders within folders too.", "R"),
)
_SELECTOR: Final = _text("selector", "Label query of the objects.", "l")
_ALL: Final = _bool("all", "All objects of the type in the namespace.")
_EVERYWHERE: Final = _bool("all-namespaces", "In all namespaces.", "A")
_OUTPUT: Final = (
    _text("output", "json, yaml, kyaml, name, jsonpath=…, go-template=….", "o"),
    _text("template", "Template for -o go-template and jsonpath."),
    _bool("show-managed-fields", "Show metadata.managedFields too."),
    _bool("allow-missing-template-keys", "Templates may name what is not there.", default="true"),
)
_DRY_RUN: Final = _text("dry-run", "none, client or server.", default="none", alone="unchanged")
_MANAGER: Final = _text("field-manager", "Who managedFields names.")
_RECORD: Final = Flag(
    name="record",
    type="bool",
    default="false",
    help="Write the command into the annotation kubernetes.io/change-cause.",
    deprecated="--record will be removed in the future",
)
_LOCAL: Final = _bool("local", "Ask no cluster: change the files' objects and print them.")
_TIMEOUT: Final = Flag(name="timeout", type="seconds", default="0", help="How long to wait; 0: for ever.")

_CHANGES: Final = (*_FILES, *_OUTPUT, _SELECTOR, _MANAGER)
_SETS: Final = (*_FILES, *_OUTPUT, _SELECTOR, _ALL, _LOCAL, _DRY_RUN, _MANAGER, _RECORD)

_TYPES: Final = "(TYPE NAME | TYPE/NAME)"

ROLLOUT: Final = Command(
    name="rollout",
    short="Manage the rollout of one or many resources",
    group="Deploy",
    children=(
        Command(
            name="status",
            short="Show the status of the rollout",
            usage=f"{_TYPES}… [flags]",
            run="rollout_status:status",
            flags=(
                *_FILES,
                _SELECTOR,
                _bool("watch", "Go on until it is done.", "w", "true"),
                _int("revision", "The revision that has to be running."),
                _TIMEOUT,
                _bool("detail", "Name the updated pods (CloneSet).", "d"),
                _text("until", "partition: done when all but the pods that the partition keeps are updated."),
                _text("output", "json: one object for each rollout, at the end.", "o"),
            ),
            examples=(
                "rollout status clone/web --timeout=5m",
                "rollout status clone/web asts/db --until=partition",
            ),
        ),
        Command(
            name="history",
            short="View rollout history",
            usage=f"{_TYPES} [flags]",
            run="rollout:history",
            flags=(
                *_FILES,
                *_OUTPUT,
                _SELECTOR,
                _int("revision", "Show this revision in full."),
                _bool("diff", "What each revision changed."),
            ),
            examples=("rollout history clone/web --diff",),
        ),
        Command(
            name="undo",
            short="Undo a previous rollout",
            usage=f"{_TYPES} [flags]",
            run="rollout:undo",
            flags=(
                *_CHANGES,
                _DRY_RUN,
                _int("to-revision", "The revision to roll back to; 0: the one before."),
                _bool("fast", "Of a Rollout: back to the largest step without traffic."),
            ),
            examples=("rollout undo clone/web --to-revision=3 --dry-run=client",),
        ),
        Command(
            name="pause",
            short="Mark the provided resource as paused",
            usage="RESOURCE",
            run="rollout:pause",
            flags=_CHANGES,
            examples=("rollout pause clone/web",),
        ),
        Command(
            name="resume",
            short="Resume a paused resource",
            usage="RESOURCE",
            run="rollout:resume",
            flags=_CHANGES,
            examples=("rollout resume clone/web",),
        ),
        Command(
            name="restart",
            short="Restart a resource",
            usage="RESOURCE",
            run="rollout:restart",
            flags=_CHANGES,
            examples=("rollout restart clone/web",),
        ),
        Command(
            name="approve",
            short="Approve the paused step of a Rollout",
            usage="RESOURCE",
            run="rollout:approve",
            flags=_CHANGES,
            examples=("rollout approve rollouts/web",),
        ),
    ),
)


def _set(
    name: str,
    short: str,
    usage: str,
    run: str,
    *flags: Flag,
    aliases: tuple[str, ...] = (),
    examples: tuple[str, ...] = (),
) -> Command:
    return Command(
        name=name,
        short=short,
        usage=usage,
        run=run,
        flags=(*_SETS, *flags),
        aliases=aliases,
        examples=examples,
    )


_CONTAINERS: Final = _text("containers", "Containers by name, * fits everything.", "c", "*")

SET: Final = Command(
    name="set",
    short="Set specific features on objects",
    group="Deploy",
    children=(
        _set(
            "image",
            "Update the image of a pod template",
            "(-f FILENAME | TYPE NAME) CONTAINER=IMAGE…",
            "setting:image",
            examples=("set image clone/web nginx=nginx:1.27", "set image sidecarset/log '*=fluentd:v2'"),
        ),
        _set(
            "env",
            "Update environment variables on a pod template",
            "RESOURCE/NAME KEY=VALUE… KEY-…",
            "environment:env",
            _CONTAINERS,
            Flag(name="env", short="e", type="list", help="KEY=VALUE; - reads lines from stdin."),
            _text("from", "secret/NAME or configmap/NAME whose keys become variables."),
            Flag(name="keys", type="words", help="Only these keys of --from."),
            _text("prefix", "Put before each name."),
            _bool("list", "Show the variables and change nothing."),
            _bool("resolve", "Of --list: the values that references have."),
            _bool("overwrite", "Variables that are there may be changed.", default="true"),
            examples=("set env asts/db LOG=debug OLD-", "set env clone/web --list"),
        ),
        _set(
            "resources",
            "Update resource requests/limits on objects with pod templates",
            "(-f FILENAME | TYPE NAME) [--limits=LIMITS] [--requests=REQUESTS]",
            "setting:resources",
            _CONTAINERS,
            _text("limits", "Such as cpu=200m,memory=512Mi."),
            _text("requests", "Such as cpu=100m."),
            examples=("set resources clone/web -c nginx --limits=cpu=500m,memory=256Mi",),
        ),
        _set(
            "serviceaccount",
            "Update the service account of a resource",
            "(-f FILENAME | TYPE NAME) SERVICE_ACCOUNT",
            "setting:service_account",
            aliases=("sa",),
        ),
        _set(
            "selector",
            "Set the selector on a resource",
            "(-f FILENAME | TYPE NAME) EXPRESSIONS",
            "setting:selector",
            _text("resource-version", "Only if the object is at this version."),
        ),
        _set(
            "subject",
            "Update the user, group, or service account in a role binding or cluster role binding",
            "(-f FILENAME | TYPE NAME) [--user=USER] [--group=GROUP] [--serviceaccount=NAMESPACE:NAME]",
            "setting:subject",
            Flag(name="user", type="words", help="Users."),
            Flag(name="group", type="words", help="Groups."),
            Flag(name="serviceaccount", type="words", help="Service accounts, as namespace:name."),
        ),
        _set(
            "partition",
            "Set how many pods keep the older revision",
            "TYPE/NAME VALUE",
            "setting:amount",
            examples=("set partition clone/web 20%",),
        ),
        _set(
            "maxunavailable",
            "Set how many pods may be down during a rollout",
            "TYPE/NAME VALUE",
            "setting:amount",
        ),
        _set(
            "maxsurge", "Set how many pods there may be beyond replicas", "TYPE/NAME VALUE", "setting:amount"
        ),
        _set(
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
        *_CHANGES,
        _ALL,
        _DRY_RUN,
        _RECORD,
        _TIMEOUT,
        _int("replicas", "The number of pods that is wanted."),
        _int("current-replicas", "Only if there are so many now.", "-1"),
        _text("resource-version", "Only if the object is at this version."),
    ),
    examples=("scale clone/web --replicas=5",),
)

SCALEDOWN: Final = Command(
    name="scaledown",
    short="Scale down and choose the pods that go",
    usage="(TYPE NAME | TYPE/NAME) --pods POD1,POD2",
    group="Deploy",
    run="scaling:scale_down",
    flags=(*_CHANGES, _DRY_RUN, Flag(name="pods", type="words", help="The pods that go.")),
    examples=("scaledown clone/web --pods web-a,web-b",),
)

AUTOSCALE: Final = Command(
    name="autoscale",
    short="Let a HorizontalPodAutoscaler scale a workload",
    usage="(-f FILENAME | TYPE NAME | TYPE/NAME) [--min=MINPODS] --max=MAXPODS [--cpu=CPU] [--memory=MEMORY]",
    group="Deploy",
    run="scaling:autoscale",
    flags=(
        *_CHANGES,
        _DRY_RUN,
        _RECORD,
        _int("min", "At least so many pods.", "-1"),
        _int("max", "At most so many pods.", "-1"),
        _text("cpu", "Share of the requested cpu (80%) or an amount (500m)."),
        _text("memory", "The same of memory."),
        Flag(
            name="cpu-percent",
            type="int",
            default="-1",
            help="Use --cpu.",
            deprecated="Use --cpu with percentage or resource quantity format (e.g., '70%' for utilization or"
            " '500m' for milliCPU).",
        ),
        _text("name", "Name of the autoscaler."),
        _bool("save-config", "Note the configuration for kubectl apply."),
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
        *_FILES,
        *_OUTPUT,
        _DRY_RUN,
        _MANAGER,
        _RECORD,
        _text("port", "Port of the Service; default: the container's."),
        _text("target-port", "Port of the containers, by number or name."),
        _text("container-port", "Same as --target-port."),
        _text("protocol", "TCP, UDP or SCTP."),
        _text("name", "Name of the Service."),
        _text("type", "ClusterIP, NodePort, LoadBalancer or ExternalName."),
        _text("selector", "Labels of the pods, instead of the object's selector."),
        _text("labels", "Labels of the Service.", "l"),
        _text("external-ip", "External address."),
        _text("load-balancer-ip", "Address of the load balancer."),
        _text("cluster-ip", "Address in the cluster; None: headless."),
        _text("session-affinity", "None or ClientIP."),
        _text("overrides", "JSON that is merged into the Service."),
        _text("generator", "Not used: service/v1 or service/v2."),
        _bool("save-config", "Note the configuration for kubectl apply."),
    ),
    examples=("expose clone/web --port=80 --target-port=8080",),
)

_CREATES: Final = (
    *_OUTPUT,
    _DRY_RUN,
    _MANAGER,
    _bool("save-config", "Note the configuration for kubectl apply."),
    _text("validate", "Not used: the API server validates.", default="strict", alone="strict"),
)
_WAITS: Final = (_bool("wait", "Until it has ended; 1 when something failed."), _TIMEOUT)
_TTL: Final = _int("ttl", "Seconds after its end until it is deleted.")
_PULLS: Final = (
    *_CREATES,
    *_WAITS,
    Flag(name="image", type="list", help="The image; of a list each."),
    Flag(name="nodes", type="words", help="Nodes by name."),
    _text("node-selector", "Nodes by labels: KEY=VALUE,…"),
    _text("pod-selector", "Nodes of these pods: KEY=VALUE,…"),
    _text("parallelism", "How many nodes pull at once, a number or a percentage."),
    Flag(name="secret", type="words", help="Secrets to pull with."),
    _bool("never", "It never ends: new nodes pull too."),
    _int("job-timeout", "Seconds until the job is given up (activeDeadlineSeconds)."),
    _int("pull-timeout", "Seconds that one pull may take."),
    _int("backoff", "How often a pull is tried again."),
    _TTL,
    _bool("always-pull", "Pull also what is there."),
)


def _create(
    name: str,
    short: str,
    usage: str,
    run: str,
    *flags: Flag,
    aliases: tuple[str, ...] = (),
    examples: tuple[str, ...] = (),
) -> Command:
    return Command(
        name=name,
        short=short,
        usage=f"NAME {usage}",
        run=f"creating:{run}",
        flags=flags,
        aliases=aliases,
        takes="nothing",
        examples=examples,
    )


_JOB: Final = (
    *_CREATES,
    *_WAITS,
    _text("image", "Image of the container."),
    _text("from", "cronjob/NAME or acj/NAME to make it of."),
)

CREATE: Final = Command(
    name="create",
    short="Create a job, a request or a scaffold; everything else as kubectl does",
    usage="-f FILENAME",
    group="Deploy",
    run="delegate:to_kubectl",
    takes="kubectl",
    children=(
        _create(
            "job",
            "Create a job",
            "(--image=IMAGE | --from=cronjob/NAME|acj/NAME) [-- COMMAND…]",
            "job",
            *_JOB,
        ),
        _create(
            "broadcastjob",
            "Create a BroadcastJob",
            "(--image=IMAGE | --from=acj/NAME) [-- COMMAND…]",
            "broadcast_job",
            *_JOB,
            aliases=("broadcastJob", "BroadcastJob"),
            examples=("create broadcastJob now --from acj/nightly",),
        ),
        _create(
            "containerrecreaterequest",
            "Recreate containers of a running pod",
            "--pod=POD [--containers=a,b]",
            "container_recreate_request",
            *_CREATES,
            *_WAITS,
            _text("pod", "The pod."),
            Flag(name="containers", type="words", help="Containers; default: all."),
            _int("unreadyGracePeriodSeconds", "Seconds out of service before they are stopped.", "3", "u"),
            _int("minStartedSeconds", "Seconds that a container has to run to count as started.", "3", "m"),
            _int("terminationGracePeriodSeconds", "Seconds to end; -1: the pod's own.", "-1"),
            _bool("ordered", "One after the other."),
            _bool("force", "Also where preStop fails."),
            _text("failure-policy", "Fail or Ignore.", default="Fail"),
            _int("active-deadline-seconds", "Seconds until it is given up.", "300"),
            _int("ttl", "Seconds after its end until it is deleted.", "1800"),
            aliases=("ContainerRecreateRequest", "crr"),
            examples=("create ContainerRecreateRequest restart-1 --pod web-a --containers nginx",),
        ),
        _create(
            "imagepulljob",
            "Pull an image on nodes",
            "--image=IMAGE",
            "image_pull_job",
            *_PULLS,
            aliases=("ImagePullJob",),
        ),
        _create(
            "imagelistpulljob",
            "Pull images on nodes",
            "--image=IMAGE --image=IMAGE…",
            "image_list_pull_job",
            *_PULLS,
            aliases=("ImageListPullJob",),
        ),
        _create(
            "ephemeraljob",
            "Put a container for debugging into running pods",
            "--image=IMAGE --pod-selector=KEY=VALUE [-- COMMAND…]",
            "ephemeral_job",
            *_CREATES,
            _text("image", "Image of the container."),
            _text("pod-selector", "The pods: KEY=VALUE,…"),
            _text("container", "Name of the container."),
            _text("target", "Container whose processes it sees."),
            _TTL,
            aliases=("EphemeralJob",),
        ),
        _create(
            "podprobemarker",
            "Check pods with a command, and note the outcome as a condition",
            "--pod-selector=KEY=VALUE --container=NAME -- COMMAND…",
            "pod_probe_marker",
            *_CREATES,
            _text("pod-selector", "The pods: KEY=VALUE,…"),
            _text("container", "Where the command runs."),
            _text("condition", "Type of the pods' condition."),
            aliases=("PodProbeMarker",),
        ),
    ),
)

GET: Final = Command(
    name="get",
    short="Show objects: everything of OpenKruise, one type, or the live tree of a rollout",
    usage="(all | TYPE [NAME…] | TYPE/NAME… | rollout NAME [-w])",
    group="Look",
    run="getting:get_command",
    flags=(
        *_FILES,
        *_OUTPUT,
        _SELECTOR,
        _EVERYWHERE,
        _TIMEOUT,
        _bool("watch", "Go on: a row for each change; a tree is drawn anew until it is done.", "w"),
        _bool("no-color", "No colours."),
    ),
    examples=("get all -n prod", "get rollout web -w", "get clone"),
)

DESCRIBE: Final = Command(
    name="describe",
    short="Show an object with its conditions, revisions, pods and events",
    usage=f"{_TYPES} | rollout NAME [-w]",
    group="Look",
    run="describing:describe",
    flags=(
        *_FILES,
        _SELECTOR,
        _EVERYWHERE,
        _TIMEOUT,
        _bool("watch", "Of a Rollout: go on.", "w"),
        _bool("no-color", "No colours."),
        _bool("all", "Of a Rollout: pods of all batches."),
    ),
    examples=("describe clone/web", "describe rollout web -w"),
)

IMAGE: Final = Command(
    name="image",
    short="Images that are pulled ahead",
    group="Look",
    children=(
        Command(
            name="status",
            short="Show how far each node is with an ImagePullJob",
            usage="JOB",
            run="getting:image_status",
            examples=("image status pull-nginx",),
        ),
    ),
)

WAIT: Final = Command(
    name="wait",
    short="Wait for a condition of objects",
    usage=f"{_TYPES} --for=condition=NAME|delete|create|jsonpath={{…}}=VALUE",
    group="Look",
    run="waiting:wait",
    flags=(
        *_FILES,
        *_OUTPUT,
        _SELECTOR,
        _ALL,
        _EVERYWHERE,
        _text("for", "What is waited for."),
        Flag(name="timeout", type="seconds", default="30s", help="How long."),
    ),
    examples=("wait clone/web --for=condition=Progressing=true",),
)

MIGRATE: Final = Command(
    name="migrate",
    short="Make a CloneSet of a Deployment and move its pods, or let an Advanced StatefulSet or DaemonSet adopt them",
    usage="(CloneSet --from Deployment [--create] | KIND --from KIND) -n NAMESPACE --src-name NAME [--dst-name NAME]",
    group="Deploy",
    run="migrating:migrate",
    takes="nothing",
    flags=(
        _DRY_RUN,
        _text(
            "from",
            "Deployment; of a StatefulSet or DaemonSet the same kind, Kubernetes' unless .GROUP is said.",
        ),
        _text("src-name", "What is there."),
        _text("dst-name", "What takes its pods; of a StatefulSet or DaemonSet by default of the same name."),
        _bool("create", "Create the CloneSet."),
        _bool("copy", "Of --create: with the Deployment's replicas; else with none."),
        _bool("plan", "Say what would happen, and do nothing."),
        _int("replicas", "How many pods move; -1: all.", "-1"),
        _int("max-surge", "By how many pods the total may grow meanwhile.", "1"),
        Flag(
            name="timeout-seconds",
            type="seconds",
            default="0",
            help="How long it may take; 0 or -1: for ever, and 60 where pods are adopted.",
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

EXEC: Final = Command(
    name="exec",
    short="Run a command in a container",
    usage="(POD | TYPE/NAME) [-c CONTAINER] [-S SIDECAR] [-it] -- COMMAND…",
    group="Look",
    run="executing:exec_command",
    flags=(
        *_FILES,
        _text("container", "The container.", "c"),
        _text("sidecar", "A sidecar; of one that is upgraded hot, the container that works.", "S"),
        _bool("stdin", "Pass standard input on.", "i"),
        _bool("tty", "With a terminal.", "t"),
        _bool("quiet", "Say nothing of one's own.", "q"),
        Flag(
            name="pod-running-timeout",
            type="seconds",
            default="1m",
            help="How long to wait for a running pod.",
        ),
    ),
    examples=("exec pod-1 -S log-agent -it -- sh",),
)


def _own(name: str, short: str) -> Command:
    """A command of pykruise."""
    return Command(name=name, short=short, group="Understand", run="delegate:to_pykruise", takes="pykruise")


def _kubectl(name: str) -> Command:
    return Command(
        name=name,
        short="As kubectl does it",
        run="delegate:to_kubectl",
        takes="kubectl",
        group="kubectl's own",
    )


ROOT: Final = Command(
    name="kubectl kruise",
    short="kubectl's verbs for every kind of OpenKruise, and what waits for what.",
    children=(
        ROLLOUT,
        SET,
        SCALE,
        SCALEDOWN,
        AUTOSCALE,
        EXPOSE,
        MIGRATE,
        CREATE,
        GET,
        DESCRIBE,
        IMAGE,
        WAIT,
        EXEC,
        _own("explain", "Say what a rollout waits for, and what helps"),
        _own("plan", "Say what applying a change would do"),
        _own("simulate", "Play a rollout, a job or a schedule in virtual time"),
        _own("doctor", "Say what is wrong with an installation"),
        _own("dashboard", "Show what moves and what waits, in a browser"),
        *(
            _kubectl(name)
            for name in (
                "apply",
                "patch",
                "replace",
                "diff",
                "edit",
                "delete",
                "logs",
                "label",
                "annotate",
                "kustomize",
                "api-resources",
                "api-versions",
                "config",
                "plugin",
                "cluster-info",
            )
        ),
        Command(
            name="version",
            short="Print the versions of this and of the API server",
            run="shell:version",
            takes="nothing",
            flags=(_bool("client", "Ask no API server."),),
            group="Other",
        ),
        Command(
            name="options",
            short="List the flags that all commands take",
            run="shell:options",
            takes="nothing",
            group="Other",
        ),
        Command(
            name="completion",
            short="Print a shell's completion script",
            usage="bash|zsh|fish|powershell",
            run="shell:completion",
            takes="nothing",
            group="Other",
        ),
        Command(
            name="generate-docs",
            short="Write a page for each command",
            run="shell:generate_docs",
            takes="nothing",
            flags=(_text("directory", "Where to."),),
            is_hidden=True,
        ),
        Command(
            name="__complete", short="What shells ask", run="shell:complete", takes="words", is_hidden=True
        ),
    ),
)


def lookup(argv: Sequence[str], root: Command = ROOT) -> tuple[Command, tuple[str, ...], list[str]]:
    """The command that the words name, the names on the way to it, and what is left. Flags may stand between them."""
    command, path, rest = root, [], list(argv)
    position = 0
    while command.children and position < len(rest):
        word = rest[position]
        if word == "--":
            break
        if word.startswith("-"):
            position += 1 if "=" in word or not _takes_value(word) else 2
            continue
        child = next((one for one in command.children if word == one.name or word in one.aliases), None)
        if child is None:
            break
        command = child
        path.append(child.name)
        del rest[position]
        if not child.children:
            break
    return command, tuple(path), rest


def _takes_value(word: str) -> bool:
    name = word.lstrip("-").replace("_", "-")
    for flag in GLOBAL:
        if (word.startswith("--") and flag.name == name) or (
            not word.startswith("--") and flag.short == name
        ):
            return flag.type != "bool"
    return False


def flags_of(command: Command) -> tuple[Flag, ...]:
    """Its own, those of every command, and `--help`."""
    own = {flag.name for flag in command.flags}
    return (*command.flags, *(flag for flag in GLOBAL if flag.name not in own), _HELP)


def all_commands(
    command: Command = ROOT, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Command]]:
    """Every command with the names on the way to it."""
    for child in command.children:
        yield (*path, child.name), child
        yield from all_commands(child, (*path, child.name))
