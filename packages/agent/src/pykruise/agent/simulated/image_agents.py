"""The agents of simulated nodes that pull images: each follows the NodeImage of its node.

NodeImages (watched) ──▶ queue ──▶ _sync: image_pulls.advance_pulls() ──▶ PATCH nodeimages/status, events
                                          └── the node has the image: its pods start without a pull

agent/rules/image_pulls.py decides what happens to an image; this module only waits, reads secrets and writes. If the
API server does not serve NodeImages, nothing is done.
"""

import math
from collections.abc import Mapping, Sequence

from pykruise.agent.rules.image_pulls import (
    NODE_IMAGES,
    AgentNodeImageView,
    Attempt,
    Pull,
    PullStatusPace,
    SecretName,
    WantedPull,
    advance_pulls,
    events_of,
    open_images,
    project_node_image,
    report_of,
)
from pykruise.agent.rules.pull_secrets import list_usable_credentials
from pykruise.agent.simulated.part import AgentPart
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ConflictError, KubeError
from pykruise.kube.ids import Key
from pykruise.kube.resources import SECRETS
from pykruise.kube.values.image_pulls import Pulled, PullFailure
from pykruise.kube.values.image_references import ImageName
from pykruise.kube.values.registry_credentials import Credential, list_matching_credentials
from pykruise.sandbox.nodes.agents import NodeAccess
from pykruise.sandbox.nodes.faults import pull_of
from pykruise.sandbox.nodes.images import expand_name

CONFLICT_S = 0.05


class ImageAgents(AgentPart):
    """The agents of all simulated nodes.

    `most_at_once`: maximum number of images that one node pulls at the same time; 0: no limit.
    """

    def __init__(self, access: NodeAccess, *, recorder: EventRecorder, most_at_once: int = 0) -> None:
        client, clock, rng = access.client, access.clock, access.rng
        self._client = client
        self._images_of = access.runtime.images_of
        self._world = access.world
        self._recorder = recorder
        self._most = most_at_once
        self.node_images = Cache(client, NODE_IMAGES, project=project_node_image, clock=clock, rng=rng)
        self.node_images.subscribe(self._on_change)
        self._writer = Writer(client, {NODE_IMAGES: self.node_images})
        self._pulls: dict[str, tuple[str, Mapping[ImageName, Pull]]] = {}
        self._paces: dict[str, PullStatusPace] = {}
        self.status_writes = 0
        super().__init__("image agents", self.node_images, workers=64, clock=clock, rng=rng)

    def wake_node(self, name: str) -> None:
        """See `AgentPart`."""
        self._queue.add(Key("", name))

    def wake_all(self) -> None:
        """See `AgentPart`."""
        for view in self.node_images.values():
            self.wake_node(view.name)

    def _on_change(self, change: Change[AgentNodeImageView]) -> None:
        if change.new is None:
            self._pulls.pop(change.key.name, None)
        self._queue.add(change.key)

    async def _sync(self, key: Key) -> float | None:
        view, held = self.node_images.get(key), self._images_of(key.name)
        if view is None or held is None or view.is_deleting:
            return None
        uid, before = self._pulls.get(view.name, ("", {}))
        if uid != view.uid:
            before = {}
        keyrings = await self._read_keyrings(view, before)
        now = self._clock()

        def attempt(image: ImageName, wanted: WantedPull, number: int) -> Attempt:
            return self._simulate_attempt(view.name, held, image, wanted, number, keyrings.get(image, ()))

        pulls, look_at = advance_pulls(before, view, attempt=attempt, most=self._most, now=now)
        for image, pull in pulls.items():
            if pull.phase == "Succeeded":
                held.add(expand_name(image.reference))
                held.add(pull.image_id)
        self._pulls[view.name] = (view.uid, pulls)
        wait_s = await self._report_status(view, pulls, now)
        self._record_events(view, before, pulls)
        soonest = min(look_at, now + wait_s)
        return None if soonest == math.inf else max(0.0, soonest - self._clock())

    def _simulate_attempt(
        self,
        node: str,
        held: set[str],
        image: ImageName,
        wanted: WantedPull,
        number: int,
        keyring: Sequence[Credential],
    ) -> Attempt:
        world, reference = self._world(), image.reference
        name = expand_name(reference)
        is_there = name in held
        if is_there and wanted.image_pull_policy == "IfNotPresent":
            return Attempt(0.0, world.images.pull(reference))
        fails, scripted_s = pull_of(world.rules, reference, node=node, attempt=number)
        takes_s = world.settings.pull_s if scripted_s is None else scripted_s
        if fails:
            failure = PullFailure("ErrImagePull", f'failed to pull image "{reference}" (scripted)')
            return Attempt(takes_s, failure)
        matching = list_matching_credentials(keyring, image.repository)
        answer = world.images.pull_as(reference, [credential.text for credential in matching])
        return Attempt(0.0 if is_there and isinstance(answer, Pulled) else takes_s, answer)

    async def _read_keyrings(
        self, view: AgentNodeImageView, pulls: Mapping[ImageName, Pull]
    ) -> dict[ImageName, list[Credential]]:
        """Return the credentials by image, for images that must still be pulled."""
        names = open_images(view, pulls) & view.secrets.keys()
        secrets = {secret for name in names for secret in view.secrets[name]}
        documents = {secret: await self._read_secret(secret) for secret in sorted(secrets, key=str)}
        return {
            image: [
                credential
                for secret in view.secrets[image.name]
                for credential in list_usable_credentials(wanted, documents[secret])
            ]
            for image, wanted in view.wanted.items()
            if image.name in names
        }

    async def _read_secret(self, secret: SecretName) -> Document:
        """Return the stored secret; empty when it cannot be read."""
        try:
            return decode(await self._client.get(SECRETS, secret.namespace, secret.name))
        except KubeError:
            return {}

    async def _report_status(
        self, view: AgentNodeImageView, pulls: Mapping[ImageName, Pull], now: Instant
    ) -> float:
        """Write the status if it has changed. Return the seconds until the next write."""
        pace = self._paces.setdefault(view.name, PullStatusPace(filled_at=now))
        report = report_of(view, pulls, pace=pace, now=now)
        if not report.patch:
            return report.again_s
        body = {"metadata": {"resourceVersion": str(view.resource_version)}, "status": report.patch}
        try:
            is_there = await self._writer.patch_status(NODE_IMAGES, Key("", view.name), body, uid=view.uid)
        except ConflictError:  # the NodeImage has changed: the cache will soon contain the change
            return CONFLICT_S
        self.status_writes += is_there
        return math.inf

    def _record_events(
        self, view: AgentNodeImageView, before: Mapping[ImageName, Pull], after: Mapping[ImageName, Pull]
    ) -> None:
        """Record an event for each image whose pull succeeded or failed."""
        for event in events_of(view, before, after):
            self._recorder.record(
                event.resource,
                namespace=event.namespace,
                name=event.name,
                uid=event.uid,
                reason=event.reason,
                message=event.message,
                warning=event.is_failure,
            )
