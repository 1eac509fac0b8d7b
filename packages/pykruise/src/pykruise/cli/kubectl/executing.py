"""Command `exec (POD | TYPE/NAME | -f FILE) [-c C] [-S SIDECAR] [-i] [-t] -- COMMAND…`: selects the pod and the
container, and kubectl runs the command.

arguments ──▶ pod, container_of() (pure) ──▶ kubectl exec POD -c CONTAINER … -- COMMAND…
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import orjson

from pykruise.cli.kubectl.delegate import to_kubectl
from pykruise.cli.kubectl.errors import ExitCode, KubectlError
from pykruise.cli.kubectl.pods import is_ready, pods_of
from pykruise.cli.kubectl.resources import Error, Info, find, get, parse_request
from pykruise.cli.kubectl.session import Session, list_global_arguments
from pykruise.kube.documents import Document
from pykruise.kube.resources import PODS

HOT_UPGRADE: Final = "kruise.io/sidecarset-working-hotupgrade-container"
DEFAULT: Final = "kubectl.kubernetes.io/default-container"


def container_of(pod: Document, *, container: str, sidecar: str) -> tuple[str, str]:
    """Select the container. Return the container's name, and a note for the user or an empty text. Raises
    KubectlError.
    """
    name = pod["metadata"]["name"]
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise KubectlError(f"cannot exec into a container in a completed pod; current phase is {phase}")
    spec = pod["spec"]
    names = [container["name"] for container in spec.get("containers") or ()]
    others = [
        item["name"] for field in ("initContainers", "ephemeralContainers") for item in spec.get(field) or ()
    ]
    annotations = pod["metadata"].get("annotations") or {}
    if sidecar:
        try:
            working = orjson.loads(annotations.get(HOT_UPGRADE) or "{}")
        except ValueError:
            working = {}
        if sidecar in working:
            return working[sidecar], f"Working container of sidecar {sidecar}: {working[sidecar]}"
        native = [
            item["name"] for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always"
        ]
        if sidecar not in (*names, *native):
            raise KubectlError(
                f"pod {name} has no container {sidecar}, and no hot upgrade names a working container for {sidecar}"
            )
        return sidecar, ""
    if container:
        if container not in (*names, *others):
            raise KubectlError(f"container {container} not found in pod {name}")
        return container, ""
    default = annotations.get(DEFAULT, "")
    if default in names:
        return default, ""
    said = (
        f'Defaulted container "{names[0]}" out of: {", ".join([*names, *others])}' if len(names) > 1 else ""
    )
    return names[0], said


async def exec_command(session: Session) -> list[Error]:
    """Run `kubectl exec` in place of this process: terminal, signals and exit code are kubectl's."""
    call = session.call
    given = list(call.arguments)
    command: Sequence[str] = call.after_dashes or ()
    in_files = call.has_files()
    if call.after_dashes is None and len(given) > (0 if in_files else 1):
        session.note(
            "kubectl kruise exec [POD] [COMMAND] is DEPRECATED and will be removed in a future version."
            " Use kubectl kruise exec [POD] -- [COMMAND] instead."
        )
        named = 0 if len(given) == 1 else 1
        given, command = given[:named], given[named:]
    if not given and not in_files:
        raise KubectlError("pod, type/name or --filename must be specified")
    if not command:
        raise KubectlError("you must specify at least one command for the container")
    pod = await _find_pod(session, given, call.seconds("pod-running-timeout") or 60.0)
    container, said = container_of(pod, container=call.text("container"), sidecar=call.text("sidecar"))
    if said and not call.is_on("quiet"):
        session.note(said)
    meta = pod["metadata"]
    flags = [f"--{name}" for name in ("stdin", "tty", "quiet") if call.is_on(name)]
    where = ("--namespace", meta["namespace"], meta["name"], "--container", container)
    raise ExitCode(
        to_kubectl(["exec"], [*list_global_arguments(call), *flags, *where, "--", *command], session.around)
    )


async def _find_pod(session: Session, target: Sequence[str], timeout_s: float) -> Document:
    """The pod that the argument or the file names, or a running pod of the named workload, ready pods first. Waits
    until a pod runs; raises KubectlError after `timeout_s`.
    """
    info = await _find_target(session, target)
    if info.resource == PODS:
        return info.document
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                if pods := await _list_running(session, info):
                    return pods[0]
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise KubectlError(f"timed out waiting for a running pod of {info.short}") from None


async def _find_target(session: Session, target: Sequence[str]) -> Info:
    """The pod or workload that the argument or, without an argument, the file names."""
    if session.call.has_files():
        return (await find(session, target)).take_only()
    mapper = await session.read_mapper()
    if "/" not in target[0]:
        return await get(session, mapper.find("pods"), target[0])
    word, name = parse_request(target, allow_all=False).pairs[0]
    return await get(session, mapper.find(word), name)


async def _list_running(session: Session, info: Info) -> list[Document]:
    running = [
        pod for pod in await pods_of(session, info) if (pod.get("status") or {}).get("phase") == "Running"
    ]
    return sorted(running, key=lambda entry: (not is_ready(entry), entry["metadata"]["name"]))
