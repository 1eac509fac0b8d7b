"""Operations of users that concern a PodProbeMarker: other markers, other probes, and containers whose probes fail.

Operation of a script ──▶ Operations.do() ──▶ ProbeOperations: requests by `user`, or rules of the nodes
"""

from typing import Any

from pykruise.kube.client.client import Client
from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.pods.probes.api import NODE_POD_PROBES, POD_PROBE_MARKERS
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.kubelet import Kubelets

__all__ = ["ProbeOperations"]


class ProbeOperations:
    """A part of `Operations`."""

    _client: Client
    _kubelets: Kubelets
    _namespace: str
    _rules: list[Rule]

    def _node(self, number: int) -> str:
        raise NotImplementedError

    async def _create_marker(self, document: dict[str, Any]) -> None:
        await self._client.create(POD_PROBE_MARKERS, self._namespace, document)

    async def _change_marker(self, name: str, **spec: Any) -> None:
        await self._client.patch(
            POD_PROBE_MARKERS, self._namespace, name, {"spec": spec}, patch_type=PatchType.MERGE
        )

    async def _change_shown(self, name: str, **fields: Any) -> None:
        """Change how the result of the first probe is shown on pods."""
        result = decode(await self._client.get(POD_PROBE_MARKERS, self._namespace, name))
        first, *rest = result["spec"]["probes"]
        first = {field: value for field, value in {**first, **fields}.items() if value is not None}
        await self._change_marker(name, probes=[first, *rest])

    async def _delete_marker(self, name: str) -> None:
        await self._client.delete(POD_PROBE_MARKERS, self._namespace, name)

    async def _delete_node_probes(self, node: int) -> None:
        """A person deletes the NodePodProbe of a node without knowing its purpose."""
        await self._client.delete(NODE_POD_PROBES, "", self._node(node))

    async def _fail_probe(self, probe: str, after_s: float = 0.0) -> None:
        """Probes of this name (a shell pattern) fail in containers that have run for so long."""
        self._rules.append(Rule(fails_probe=probe, after_s=after_s, output=f"{probe} fails"))
        self._kubelets.set_rules(self._rules)
