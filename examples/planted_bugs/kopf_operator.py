"""kopf's walkthrough: each EphemeralVolumeClaim gets a PersistentVolumeClaim.

python kopf_operator.py kubeconfig      until Ctrl-C
"""

import asyncio
import json
import sys
from typing import Any

import kopf
import kubernetes


async def main(kubeconfig: str, *, has_bug: bool = False) -> None:
    """Run until it is cancelled."""
    registry = kopf.OperatorRegistry()
    client = kubernetes.config.new_client_from_config(kubeconfig)
    core = kubernetes.client.CoreV1Api(client)

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        given = client.configuration
        token = given.auth_settings()["BearerToken"]["value"].removeprefix("Bearer ")
        return kopf.ConnectionInfo(server=given.host, ca_path=given.ssl_ca_cert, token=token)

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.networking.error_backoffs = (0.1, 0.2, 0.5)

    @kopf.on.create("ephemeralvolumeclaims", registry=registry, backoff=0.3)
    def create_volume(spec: kopf.Spec, name: str, namespace: str, **_: Any) -> None:
        resources = {"requests": {"storage": spec["size"]}}
        volume = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}}
        volume["metadata"] = {"generateName": f"{name}-"} if has_bug else {"name": name}
        kopf.adopt(volume)
        try:
            core.create_namespaced_persistent_volume_claim(namespace, volume)
        except kubernetes.client.ApiException as error:
            if json.loads(error.body or "{}").get("reason") != "AlreadyExists":
                raise

    await kopf.operator(registry=registry, standalone=True, namespaces=["default"])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
