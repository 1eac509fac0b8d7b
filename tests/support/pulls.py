"""ImagePullJobs in scenarios: nodes that pull, jobs on them, and the states that a test waits for.

pulls = Pulls(stage, pool); await pulls.ready(); await pulls.create(parallelism=2); await pulls.completed()
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import orjson

from pykruise.agent.simulated import AgentTasks, make_simulated_agents
from pykruise.kinds.gates import Gates
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kube.documents import decode, get_path
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import NAMESPACES, SECRETS
from pykruise.kube.values.image_references import ImageName, parse_image
from pykruise.manager.settings import SECRETS_NAMESPACE, ManagerSettings
from pykruise.pods.images.node_images import NODE_IMAGES, NodeImageView, project_node_image
from pykruise.sandbox.cluster import ClusterSettings
from support.daemonsets import POOL_LABEL, Pool
from support.scenario import Object, Stage

NAME = "ahead"

PULLING = ManagerSettings(gates=Gates.of(ImagePullJobGate=True), flags={"nodeimage-creation-delay": 0.0})
"""A manager that requests pulls from nodes, and immediately from new nodes."""


def with_agents(settings: ClusterSettings, *, pull_s: float) -> ClusterSettings:
    """The same cluster with nodes that pull the requested images; each image takes this time."""
    kubelet = msgspec.structs.replace(settings.kubelet, pull_s=pull_s)
    agents = make_simulated_agents(AgentTasks(pulls_ahead=True))
    return msgspec.structs.replace(settings, kubelet=kubelet, agents=agents)


def pull_secret(name: str, registry: str, credentials: str) -> Object:
    """A Secret with `user:password` for a registry."""
    config = {"auths": {registry: {"auth": b64encode(credentials.encode()).decode()}}}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": b64encode(orjson.dumps(config)).decode()},
    }


class Pulls:
    """ImagePullJobs on the nodes of a pool."""

    def __init__(self, stage: Stage, pool: Pool) -> None:
        self.stage = stage
        self.pool = pool
        self.image = f"registry.example.com/{stage.namespace}/app:1"

    @property
    def name(self) -> ImageName:
        """The name of the image as in NodeImages."""
        return parse_image(self.image)

    def spec(self, **fields: Any) -> Object:
        """A spec for the nodes of the pool, one node at a time."""
        result = {
            "selector": {"matchLabels": {POOL_LABEL: self.pool.name}},
            "completionPolicy": {"type": "Always"},
            **fields,
        }
        return {name: value for name, value in result.items() if value is not None}

    async def create(self, name: str = NAME, *, image: str = "", **fields: Any) -> Object:
        """An ImagePullJob, as it is stored."""
        doc = {
            "apiVersion": IMAGE_PULL_JOBS.api_version,
            "kind": IMAGE_PULL_JOBS.kind,
            "metadata": {"name": name},
            "spec": {"image": image or self.image, **self.spec(**fields)},
        }
        return await self.stage.create(doc, resource=IMAGE_PULL_JOBS)

    async def create_list(self, *images: str, name: str = NAME, **fields: Any) -> Object:
        """An ImageListPullJob, as it is stored."""
        doc = {
            "apiVersion": IMAGE_LIST_PULL_JOBS.api_version,
            "kind": IMAGE_LIST_PULL_JOBS.kind,
            "metadata": {"name": name},
            "spec": {"images": list(images), **self.spec(**fields)},
        }
        return await self.stage.create(doc, resource=IMAGE_LIST_PULL_JOBS)

    async def status(self, name: str = NAME) -> Object:
        """Status of a job; empty before the first one."""
        status: Object = (await self.stage.get(name, resource=IMAGE_PULL_JOBS)).get("status") or {}
        return status

    async def reaches(
        self, wanted: Callable[[Object], Any], name: str = NAME, *, within_s: float | None = None
    ) -> Object:
        """Wait until the job's status is like that; the status then."""

        async def is_there() -> Object | None:
            status = await self.status(name)
            return status if status and wanted(status) else None

        reaches: Object = await self.stage.until(is_there, within_s=within_s, what=f"status of {name}")
        return reaches

    async def completed(self, name: str = NAME) -> Object:
        """Wait until the job has ended; its status then."""
        return await self.reaches(lambda status: status.get("completionTime"), name)

    async def counts(self, name: str = NAME, **wanted: int) -> Object:
        """Wait until the job's status has these counts."""
        return await self.reaches(
            lambda status: all(status.get(field, 0) == count for field, count in wanted.items()), name
        )

    async def node_images(self) -> Mapping[str, NodeImageView]:
        """NodeImages of the pool's nodes, by name."""
        listed = await self.stage.client.list(NODE_IMAGES)
        node_images = [project_node_image(raw) for raw in listed.items]
        return {
            node_image.name: node_image for node_image in node_images if node_image.name in self.pool.nodes
        }

    async def ready(self) -> None:
        """Wait until every node of the pool has its NodeImage, with its labels."""

        async def are_there() -> bool:
            result = await self.node_images()
            return set(result) == set(self.pool.nodes) and all(
                node_image.labels.get(POOL_LABEL) == self.pool.name for node_image in result.values()
            )

        await self.stage.until(are_there, what="NodeImages")

    async def asked(self, image: ImageName | None = None) -> dict[str, int]:
        """Nodes that have a request for the image, with the version of their entry."""
        name = image or self.name
        entries = {node: image.find_entry(name) for node, image in (await self.node_images()).items()}
        return {node: entry.version for node, entry in entries.items() if entry is not None}

    async def copies(self) -> dict[str, Object]:
        """Copied secrets of jobs of this scenario, by the name of their source."""
        listed = await self.stage.client.list(SECRETS, SECRETS_NAMESPACE)
        copies: dict[str, Object] = {}
        for item in map(decode, listed.items):
            source = get_path(
                item, "metadata", "annotations", "imagepulljobs.kruise.io/source-key", default=""
            )
            namespace, _, name = source.partition("/")
            if namespace == self.stage.namespace:
                copies[name] = item
        return copies

    async def count_copies(self) -> int:
        """Number of copies of this scenario's secrets; several copies of one source all count."""
        listed = await self.stage.client.list(SECRETS, SECRETS_NAMESPACE)
        prefix = f"{self.stage.namespace}/"
        return sum(
            get_path(
                item, "metadata", "annotations", "imagepulljobs.kruise.io/source-key", default=""
            ).startswith(prefix)
            for item in map(decode, listed.items)
        )

    async def have_home(self) -> None:
        """Create the namespace of copied secrets if it does not exist."""
        try:
            await self.stage.client.get(NAMESPACES, "", SECRETS_NAMESPACE)
        except NotFoundError:
            await self.stage.client.create(NAMESPACES, "", {"metadata": {"name": SECRETS_NAMESPACE}})
