"""Commands `create job, broadcastJob, ContainerRecreateRequest, imagepulljob, imagelistpulljob, ephemeraljob,
podprobemarker`.

arguments (and a schedule, or a pod) ──▶ build_job_document(), recreate_request(), … (pure) ──▶ POST ──▶ printing.py

kubectl runs `create -f` and the other `create` commands.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.kinds import KRUISE
from pykruise.cli.kubectl.resources import Error, Info, get, read_patiently, reread
from pykruise.cli.kubectl.scaling import create_and_show, put_last_applied
from pykruise.cli.kubectl.session import Session
from pykruise.cli.kubectl.statuses import RolloutFailed, status_of
from pykruise.kube.documents import Document, deep_copy, get_path
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import JOBS, PODS, Resource

MANAGER: Final = "kubectl kruise-create"
MANUAL: Final = {"cronjob.kubernetes.io/instantiate": "manual"}
POLL_S: Final = 0.5


def _name_of(session: Session, what: str) -> str:
    given = session.call.arguments
    if len(given) != 1:
        raise KubectlError(f"exactly one NAME is required, got {len(given)}: create {what} NAME")
    return given[0]


async def _find_resource(session: Session, kind: str) -> Resource:
    served = (await session.read_mapper()).find_in_group(KRUISE, kind)
    if served is None:
        raise KubectlError(f'the server doesn\'t have a resource type "{kind}"')
    return served.resource


def _build_document(resource: Resource, name: str, spec: Document) -> Document:
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {"name": name},
        "spec": spec,
    }


async def _create(session: Session, resource: Resource, document: Document) -> list[Error]:
    call = session.call
    if call.is_on("save-config"):
        put_last_applied(document)
    info = await create_and_show(
        session, resource, await session.read_namespace(), document, operation="created", manager=MANAGER
    )
    if call.is_on("wait"):
        await _wait_until_done(session, info)
    return []


async def _wait_until_done(session: Session, info: Info) -> None:
    """Wait until the object is done. Raises KubectlError when a container or node failed, or after the timeout."""
    timeout_s = session.call.seconds("timeout")
    try:
        async with asyncio.timeout(timeout_s or None):
            while True:
                document = (await read_patiently(lambda: reread(session, info))).document
                if status_of(document).is_done:
                    return
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise KubectlError("timed out waiting for the condition") from None
    except RolloutFailed as error:
        raise KubectlError(str(error)) from error


# ── jobs ─────────────────────────────────────────────────────────────────────


def _check_source(session: Session) -> None:
    call = session.call
    image, source = call.text("image"), call.text("from")
    if bool(image) == bool(source):
        raise KubectlError("either --image or --from must be specified")
    if source and call.after_dashes:
        raise KubectlError("cannot specify --from and command")


async def _read_template(session: Session, field: str, other: str) -> tuple[Document, Document]:
    """The CronJob or AdvancedCronJob of `--from`, and its job template. Raises KubectlError for another type."""
    word, slash, name = session.call.text("from").partition("/")
    if not slash or not name:
        raise KubectlError(f"--from={session.call.text('from')}: expected cronjob/NAME or acj/NAME")
    source = (await get(session, (await session.read_mapper()).find(word), name)).document
    if source["kind"] == "CronJob" and field == "jobTemplate":
        return source, source["spec"]["jobTemplate"]
    if source["kind"] != "AdvancedCronJob":
        raise KubectlError(f"unknown object type {source['kind']} in --from")
    template = get_path(source, "spec", "template", field)
    if not template:
        raise KubectlError(
            f"AdvancedCronJob {name} creates {other}, not {_MADE[field]}: it has no spec.template.{field}"
        )
    return source, template


_MADE: Final = {"jobTemplate": "Jobs", "broadcastJobTemplate": "BroadcastJobs"}


def build_job_from(
    source: Document, template: Document, *, api_version: str, kind: str, name: str
) -> Document:
    """The Job that the schedule would create, marked as created manually."""
    meta = template.get("metadata") or {}
    return {
        "kind": kind,
        "apiVersion": api_version,
        "metadata": {
            "name": name,
            **({"labels": meta["labels"]} if meta.get("labels") else {}),
            "annotations": {**(meta.get("annotations") or {}), **MANUAL},
            "ownerReferences": [
                {
                    "apiVersion": source["apiVersion"],
                    "kind": source["kind"],
                    "name": source["metadata"]["name"],
                    "uid": source["metadata"]["uid"],
                    # not a controller reference: the schedule does not count this job
                }
            ],
        },
        "spec": deep_copy(template["spec"]),
    }


def build_job_document(
    *, api_version: str, kind: str, name: str, image: str, command: Sequence[str]
) -> Document:
    """A job with one container."""
    container = {"name": name, "image": image, **({"command": list(command)} if command else {})}
    return {
        "kind": kind,
        "apiVersion": api_version,
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}},
    }


async def create_job(session: Session) -> list[Error]:
    """`create job NAME (--image I [-- CMD…] | --from cronjob/x|acj/x)`."""
    return await _create_job(session, JOBS, "jobTemplate", "BroadcastJobs or ImageListPullJobs")


async def create_broadcast_job(session: Session) -> list[Error]:
    """`create broadcastJob NAME (--image I [-- CMD…] | --from acj/x)`."""
    return await _create_job(
        session,
        await _find_resource(session, "BroadcastJob"),
        "broadcastJobTemplate",
        "Jobs or ImageListPullJobs",
    )


async def _create_job(session: Session, resource: Resource, field: str, other: str) -> list[Error]:
    _check_source(session)
    name = _name_of(session, resource.kind)
    if session.call.text("from"):
        source, template = await _read_template(session, field, other)
        document = build_job_from(
            source, template, api_version=resource.api_version, kind=resource.kind, name=name
        )
    else:
        document = build_job_document(
            api_version=resource.api_version,
            kind=resource.kind,
            name=name,
            image=session.call.text("image"),
            command=session.call.after_dashes or (),
        )
    return await _create(session, resource, document)


# ── ContainerRecreateRequest ─────────────────────────────────────────────────


def recreate_request(
    pod: Document, *, api_version: str, name: str, containers: Sequence[str], flags: Mapping[str, Any]
) -> Document:
    """A ContainerRecreateRequest for containers of a pod; without names, for all containers. Of each container, only
    the name is sent; admission fills in its other fields.

    Raises KubectlError for a container that the pod does not have.
    """
    own = [container["name"] for container in pod["spec"].get("containers") or ()]
    if strange := [container for container in containers if container not in own]:
        raise KubectlError(f"container {', '.join(strange)} not found in pod {pod['metadata']['name']}")
    strategy: Document = {
        "failurePolicy": flags["failure-policy"],
        "orderedRecreate": flags["ordered"],
        "unreadyGracePeriodSeconds": flags["unreadyGracePeriodSeconds"],
        "minStartedSeconds": flags["minStartedSeconds"],
    }
    if flags["force"]:
        strategy["forceRecreate"] = True
    if flags["terminationGracePeriodSeconds"] >= 0:
        strategy["terminationGracePeriodSeconds"] = flags["terminationGracePeriodSeconds"]
    return {
        "kind": "ContainerRecreateRequest",
        "apiVersion": api_version,
        "metadata": {"name": name},
        "spec": {
            "podName": pod["metadata"]["name"],
            "containers": [{"name": container} for container in (containers or own)],
            "strategy": strategy,
            "activeDeadlineSeconds": flags["active-deadline-seconds"],
            "ttlSecondsAfterFinished": flags["ttl"],
        },
    }


_REQUEST_FLAGS: Final = (
    "failure-policy",
    "ordered",
    "force",
    "unreadyGracePeriodSeconds",
    "minStartedSeconds",
    "terminationGracePeriodSeconds",
    "active-deadline-seconds",
    "ttl",
)


async def create_container_recreate_request(session: Session) -> list[Error]:
    """`create ContainerRecreateRequest NAME --pod P [--containers a,b]`."""
    call = session.call
    name, pod_name = _name_of(session, "ContainerRecreateRequest"), call.text("pod")
    if not pod_name:
        raise KubectlError('required flag(s) "pod" not set')
    if call.text("failure-policy") not in ("Fail", "Ignore"):
        raise KubectlError(f"--failure-policy={call.text('failure-policy')}: must be Fail or Ignore")
    client, namespace = await session.make_client(), await session.read_namespace()
    try:
        pod = orjson.loads(await client.get(PODS, namespace, pod_name))
    except NotFoundError:
        raise KubectlError(f"pod {namespace}/{pod_name} not found") from None
    resource = await _find_resource(session, "ContainerRecreateRequest")
    document = recreate_request(
        pod,
        api_version=resource.api_version,
        name=name,
        containers=call.listed("containers"),
        flags={flag: call.values[flag] for flag in _REQUEST_FLAGS},
    )
    return await _create(session, resource, document)


# ── other kinds ──────────────────────────────────────────────────────────────


def labels_of(text: str, flag: str) -> dict[str, str]:
    """Parse `a=b,c=d`. Raises KubectlError."""
    labels = {}
    for part in filter(None, text.split(",")):
        name, sign, value = part.partition("=")
        if not sign:
            raise KubectlError(f"--{flag}={text}: expected KEY=VALUE")
        labels[name] = value
    return labels


def pull_spec(call: Any) -> Document:
    """Common spec of ImagePullJob and ImageListPullJob."""
    selectors = [name for name in ("nodes", "node-selector", "pod-selector") if call.values.get(name)]
    if len(selectors) > 1:
        raise KubectlError(f"--{selectors[0]} and --{selectors[1]} cannot be used together")
    spec: Document = {}
    if nodes := call.listed("nodes"):
        spec["selector"] = {"names": list(nodes)}
    elif text := call.text("node-selector"):
        spec["selector"] = {"matchLabels": labels_of(text, "node-selector")}
    elif text := call.text("pod-selector"):
        spec["podSelector"] = {"matchLabels": labels_of(text, "pod-selector")}
    if "parallelism" in call.given:
        parallelism = call.text("parallelism")
        spec["parallelism"] = int(parallelism) if parallelism.isdecimal() else parallelism
    if secrets := call.listed("secret"):
        spec["pullSecrets"] = list(secrets)
    policy: Document = {"type": "Never" if call.is_on("never") else "Always"}
    if not call.is_on("never"):
        if "job-timeout" in call.given:
            policy["activeDeadlineSeconds"] = call.number("job-timeout")
        if "ttl" in call.given:
            policy["ttlSecondsAfterFinished"] = call.number("ttl")
    spec["completionPolicy"] = policy
    pulls: Document = {}
    if "pull-timeout" in call.given:
        pulls["timeoutSeconds"] = call.number("pull-timeout")
    if "backoff" in call.given:
        pulls["backoffLimit"] = call.number("backoff")
    if pulls:
        spec["pullPolicy"] = pulls
    if call.is_on("always-pull"):
        spec["imagePullPolicy"] = "Always"
    return spec


async def create_image_pull_job(session: Session) -> list[Error]:
    """`create imagepulljob NAME --image …`."""
    return await _pull_job(session, "ImagePullJob")


async def create_image_list_pull_job(session: Session) -> list[Error]:
    """`create imagelistpulljob NAME --image … --image …`."""
    return await _pull_job(session, "ImageListPullJob")


async def _pull_job(session: Session, kind: str) -> list[Error]:
    call = session.call
    name, images = _name_of(session, kind.lower()), call.listed("image")
    if not images or (kind == "ImagePullJob" and len(images) > 1):
        raise KubectlError(
            'required flag(s) "image" not set' if not images else "exactly one image is required: --image"
        )
    resource = await _find_resource(session, kind)
    own = {"image": images[0]} if kind == "ImagePullJob" else {"images": list(images)}
    return await _create(session, resource, _build_document(resource, name, {**own, **pull_spec(call)}))


async def create_ephemeral_job(session: Session) -> list[Error]:
    """`create ephemeraljob NAME --image I --pod-selector k=v [-- CMD…]`."""
    call = session.call
    name = _name_of(session, "ephemeraljob")
    if not call.text("image") or not call.text("pod-selector"):
        raise KubectlError('required flag(s) "image", "pod-selector" not set')
    container: Document = {
        "name": call.text("container") or name,
        "image": call.text("image"),
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePolicy": "File",
        **({"targetContainerName": call.text("target")} if call.text("target") else {}),
        **({"command": list(call.after_dashes)} if call.after_dashes else {}),
    }
    resource = await _find_resource(session, "EphemeralJob")
    spec: Document = {
        "selector": {"matchLabels": labels_of(call.text("pod-selector"), "pod-selector")},
        "template": {"ephemeralContainers": [container]},
        **({"ttlSecondsAfterFinished": call.number("ttl")} if "ttl" in call.given else {}),
    }
    return await _create(session, resource, _build_document(resource, name, spec))


async def create_pod_probe_marker(session: Session) -> list[Error]:
    """`create podprobemarker NAME --pod-selector k=v --container C [--condition TYPE] -- CMD…`."""
    call = session.call
    name = _name_of(session, "podprobemarker")
    missing = [f'"{literal}"' for literal in ("pod-selector", "container") if not call.text(literal)]
    if missing:
        raise KubectlError(f"required flag(s) {', '.join(missing)} not set")
    if not call.after_dashes:
        raise KubectlError("the command of the probe is required: -- CMD…")
    resource = await _find_resource(session, "PodProbeMarker")
    probe: Document = {
        "name": name,
        "containerName": call.text("container"),
        "probe": {"exec": {"command": list(call.after_dashes)}},
        "podConditionType": call.text("condition") or f"game.kruise.io/{name}",
    }
    spec = {
        "selector": {"matchLabels": labels_of(call.text("pod-selector"), "pod-selector")},
        "probes": [probe],
    }
    return await _create(session, resource, _build_document(resource, name, spec))
