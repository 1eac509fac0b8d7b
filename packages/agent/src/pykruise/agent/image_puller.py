"""Pulls the images that the NodeImage of this node requests, and reports the progress.

NodeImage (watched) ──▶ queue ──▶ _sync: image_pulls.advance_pulls() ──▶ PATCH nodeimages/status, events
                                         └── a task for each try: PullImage with one credential after another

agent/rules/image_pulls.py decides when each image is pulled, tried again or given up. Each try is a task. A sync reads
the results of the tasks. It cancels the tasks of images or versions that are no longer requested, so that their results
cannot be reported. After a restart the agent does not repeat pulls that had ended.
"""

import asyncio
import logging
import math
import random
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pykruise.agent.clock_steps import ClockSteps
from pykruise.agent.cri.client import CriClient
from pykruise.agent.cri.errors import CriError
from pykruise.agent.cri.values import Auth, CriSandboxConfig, Image
from pykruise.agent.keyring import Keyring
from pykruise.agent.rules.image_pulls import (
    NODE_IMAGES,
    AgentNodeImageView,
    Attempt,
    Pull,
    PullSandbox,
    PullStatusPace,
    SecretName,
    WantedPull,
    advance_pulls,
    events_of,
    project_node_image,
    report_of,
    shift_times,
)
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.client import Client
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.clock import Clock
from pykruise.kube.control.controller import Controller
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.errors import ConflictError
from pykruise.kube.ids import Key
from pykruise.kube.values.image_pulls import Pulled, PullFailure
from pykruise.kube.values.image_references import ImageName, parse_image

_log = logging.getLogger(__name__)

PULLED_BY: Final = {"apps.kruise.io/pulling-image-by": "kruise-daemon"}
"""Annotation that the runtime receives with every pull."""
CONFLICT_S: Final = 0.05
LONGEST_S: Final = 24 * 3600.0
"""Maximum duration of a call. Usually the agent cancels the call earlier, at the time limit of the try; then the
runtime stops pulling.
"""

_TryKey = tuple[ImageName, int, int]
"""Image, version, and the number of the try."""


class _Try(msgspec.Struct, frozen=True):
    started_at: float
    """Time of the event loop."""
    task: "asyncio.Task[tuple[float, Pulled | PullFailure]]"


class ImagePuller:
    """The image puller of one node. `most`: maximum number of images pulled at the same time; 0: no limit.

    It works from `run()` until `stop()`.
    """

    name = "image-puller"

    def __init__(
        self,
        client: Client,
        runtime: CriClient,
        *,
        node: str,
        keyring: Keyring,
        recorder: EventRecorder,
        clock: Clock,
        rng: random.Random,
        most: int = 0,
    ) -> None:
        self._runtime = runtime
        self._key = Key("", node)
        self._keyring = keyring
        self._recorder = recorder
        self._clock = clock
        self._most = most
        self.cache = Cache(
            client,
            NODE_IMAGES,
            project=project_node_image,
            field_selector=f"metadata.name={node}",
            clock=clock,
            rng=rng,
        )
        self.cache.subscribe(self._on_change)
        self._writer = Writer(client, {NODE_IMAGES: self.cache})
        self._uid = ""
        self._pulls: Mapping[ImageName, Pull] = {}
        self._tries: dict[_TryKey, _Try] = {}
        self._steps = ClockSteps(clock)
        self._pace = PullStatusPace(filled_at=clock())
        self.status_writes = 0
        queue: WorkQueue[Key] = WorkQueue(cost_factor=0, base_delay_s=0.5, max_delay_s=50.0, rng=rng)
        self.controller = Controller("image-puller", self._sync, queue=queue, workers=1, clock=clock)

    async def run(self) -> None:
        """Pull images until `stop()`. Pulls in progress are then cancelled; the next agent starts them again."""
        try:
            await self.controller.run()
        finally:
            tasks = [attempt.task for attempt in self._tries.values()]
            self._tries.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self, *, grace_s: float) -> None:
        """Finish the writes in flight within `grace_s`; then `run()` returns."""
        await self.controller.stop(grace_s=grace_s)

    def _on_change(self, change: Change[AgentNodeImageView]) -> None:
        old, new = change.old, change.new
        # A sync is needed after a change of the requested images, of their secrets, or of the set of ended pulls, but
        # not after this agent's own progress reports.
        if (
            new is None
            or old is None
            or (old.wanted, old.secrets, old.ended) != (new.wanted, new.secrets, new.ended)
        ):
            self.controller.queue.add(change.key)

    # ── one round ────────────────────────────────────────────────────────────

    async def _sync(self, key: Key) -> float | None:
        view = self.cache.get(key)
        if view is None or view.is_deleting:
            await self._end_tries(set())
            self._pulls = {}
            return None
        if step_s := self._steps.read_step_s():
            _log.info("the clock was set by %+.0f s; the time limits of pulls do not count this step", step_s)
            self._pulls = shift_times(self._pulls, step_s)
        before = self._pulls if view.uid == self._uid else {}
        now = self._clock()
        needed: set[_TryKey] = set()

        def attempt(image: ImageName, wanted: WantedPull, number: int) -> Attempt:
            name = image, wanted.version, number
            needed.add(name)
            return self._start_or_check_try(view, name, wanted)

        pulls, look_at = advance_pulls(before, view, attempt=attempt, most=self._most, now=now)
        under_way = {
            (image, pull.version, pull.attempt) for image, pull in pulls.items() if pull.completed_at is None
        }
        await self._end_tries(needed & under_way)
        self._uid, self._pulls = view.uid, pulls
        self._keyring.retain(view.secrets)
        for event in events_of(view, before, pulls):
            self._recorder.record(
                event.resource,
                namespace=event.namespace,
                name=event.name,
                uid=event.uid,
                reason=event.reason,
                message=event.message,
                warning=event.is_failure,
            )
        wait_s = await self._report_status(view, pulls)
        soonest = min(look_at, now + wait_s)
        return None if soonest == math.inf else max(0.0, soonest - self._clock())

    def _start_or_check_try(self, view: AgentNodeImageView, name: _TryKey, wanted: WantedPull) -> Attempt:
        """Return the state of the try; start it first if it is new."""
        image = name[0]
        result = self._tries.get(name)
        if result is None:
            secrets = view.secrets.get(image.name, ())
            work = self._run_try(image, wanted, secrets, view.sandboxes.get(image.name, PullSandbox()))
            loop = asyncio.get_running_loop()
            task = loop.create_task(work, name=f"pull {image.reference}")
            task.add_done_callback(self._on_try_ended)
            result = self._tries[name] = _Try(loop.time(), task)
            _log.info("pulling %s, try %d", image.reference, name[2], extra={"fields": {"version": name[1]}})
        if not result.task.done():
            return Attempt(math.inf, None)
        ended_at, answer = result.task.result()
        return Attempt(max(0.0, ended_at - result.started_at), answer)

    def _on_try_ended(self, task: "asyncio.Task[tuple[float, Pulled | PullFailure]]") -> None:
        if not task.cancelled():
            self.controller.queue.add(self._key)

    async def _end_tries(self, needed: set[_TryKey]) -> None:
        """Cancel tries that are no longer needed."""
        ended = [self._tries.pop(name).task for name in tuple(self._tries) if name not in needed]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)

    # ── one try ──────────────────────────────────────────────────────────────

    async def _run_try(
        self, image: ImageName, wanted: WantedPull, secrets: Sequence[SecretName], sandbox: PullSandbox
    ) -> tuple[float, Pulled | PullFailure]:
        """Return the loop's time at the end of the try, and its result."""
        try:
            answer: Pulled | PullFailure = Pulled(await self._pull_image(image, wanted, secrets, sandbox))
        except CriError as error:
            self._keyring.forget(secrets)
            answer = PullFailure("ErrImagePull", str(error) or type(error).__name__)
        except (
            Exception
        ) as error:  # a bug must be reported in the status, not lost in a task that is not awaited
            _log.exception("pulling %s", image.reference)
            answer = PullFailure("ErrImagePull", f"{type(error).__name__}: {error}")
        return asyncio.get_running_loop().time(), answer

    async def _pull_image(
        self, image: ImageName, wanted: WantedPull, secrets: Sequence[SecretName], sandbox: PullSandbox
    ) -> str:
        """Pull the image and return its id in the runtime. Raises CriError."""
        if wanted.image_pull_policy == "IfNotPresent":
            present = await self._find_present(image)
            if present is not None:
                return present.id
        config = CriSandboxConfig(
            labels=dict(sandbox.labels or {}), annotations={**(sandbox.annotations or {}), **PULLED_BY}
        )
        credentials = await self._keyring.list_credentials_for(image, wanted, secrets)
        auths: list[Auth | None] = [
            Auth(
                username=credential.username,
                password=credential.password,
                identity_token=credential.identity_token,
                registry_token=credential.registry_token,
            )
            for credential in credentials
        ]
        failures: list[str] = []
        for auth in auths or [None]:
            try:
                id_ = await self._runtime.pull_image(
                    image.reference, auth=auth, sandbox=config, timeout_s=LONGEST_S
                )
                break
            except CriError as error:
                failures.append(str(error) or type(error).__name__)
        else:
            # If the registry rejects matching credentials, the agent does not pull without credentials.
            raise CriError("; ".join(dict.fromkeys(failures)))
        result = await self._find_present(image)
        return result.id if result is not None else id_

    async def _find_present(self, image: ImageName) -> Image | None:
        """Return the image if the node has it. Return None if the node does not have it, or if the images cannot be
        listed, because a failed list must not make the pull fail.
        """
        try:
            return find_image(await self._runtime.list_images(), image)
        except CriError as error:
            _log.info("the images of the node cannot be listed: %s", error)
            return None

    # ── the status ───────────────────────────────────────────────────────────

    async def _report_status(self, view: AgentNodeImageView, pulls: Mapping[ImageName, Pull]) -> float:
        """Write the status if it has changed. Return the seconds until the next write; infinity if the status is up to
        date.
        """
        report = report_of(view, pulls, pace=self._pace, now=self._clock())
        if not report.patch:
            return report.again_s
        body = {"metadata": {"resourceVersion": str(view.resource_version)}, "status": report.patch}
        try:
            is_there = await self._writer.patch_status(NODE_IMAGES, self._key, body, uid=view.uid)
        except ConflictError:  # the NodeImage has changed: the cache will soon contain the change
            return CONFLICT_S
        self.status_writes += is_there
        return math.inf


def find_image(images: Sequence[Image], wanted: ImageName) -> Image | None:
    """Return the node's image that has the wanted tag or digest."""
    for image in images:
        for text in image.digests if wanted.is_digest else image.tags:
            try:
                if parse_image(text) == wanted:
                    return image
            except ValueError:  # <none>:<none>
                continue
    return None
