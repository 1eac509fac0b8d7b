"""Restricts a pull secret to requests of its own namespace.

NodeImage: pullSecrets of an image, tags with the jobs that request them ──▶ one tag, one secret ──▶ credentials

A NodeImage names secrets for an image, not for a tag or a job. If each secret were used for every tag, a user who may
create ImagePullJobs could have any tag of a repository pulled with credentials of another namespace, and then run it.
So the agent of a node checks the origin of a secret: a copy names it in an annotation, any other secret belongs to
its own namespace. A tag without owners was written by a user who may write NodeImages and so decides for all
namespaces.

Pure; every reader of pull secrets on nodes, real or simulated, uses this module.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.agent.rules.image_pulls import WantedPull
from pykruise.kube.documents import annotations_of, get_path
from pykruise.kube.values.registry_credentials import Credential, read_secret_credentials

SOURCE_KEY: Final = "imagepulljobs.kruise.io/source-key"
"""Annotation of a copied secret: `<namespace>/<name>` of the original."""


def read_served_namespace(secret: Mapping[str, Any]) -> str:
    """Return the namespace whose requests may use the secret."""
    source = annotations_of(secret).get(SOURCE_KEY)
    if isinstance(source, str) and "/" in source:
        return source.partition("/")[0]
    return str(get_path(secret, "metadata", "namespace", default=""))


def may_use(wanted: WantedPull, namespace: str) -> bool:
    """Whether this tag is pulled for that namespace."""
    owners = wanted.owner_references or ()
    return not owners or any(owner.get("namespace", "") == namespace != "" for owner in owners)


def list_usable_credentials(wanted: WantedPull, secret: Mapping[str, Any]) -> list[Credential]:
    """Return the credentials in the secret for this tag; empty when the secret belongs to another namespace."""
    return read_secret_credentials(secret) if may_use(wanted, read_served_namespace(secret)) else []
