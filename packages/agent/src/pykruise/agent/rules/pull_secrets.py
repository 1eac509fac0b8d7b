"""Restricts a pull secret to requests of its own namespace.

NodeImage: pullSecrets of an image, tags with the jobs that request them ──▶ one tag, one secret ──▶ credentials

A NodeImage names secrets for an image, not for a tag or a job. If each secret were used for every tag, a user who may
create ImagePullJobs could let a node pull any tag of a repository with the credentials of another namespace, and could
then run this image.
So a node's agent uses a secret only for requests of the secret's namespace. If the secret is a copy, this is the
namespace of the original, which an annotation names. All secrets may be used for a tag without owners, because such a
tag was written by a user who may write NodeImages, and this permission covers all namespaces.

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
    """Whether credentials of this namespace may be used for the tag: a job of the namespace requests it, or it has no
    owners.
    """
    owners = wanted.owner_references or ()
    return not owners or any(owner.get("namespace", "") == namespace != "" for owner in owners)


def list_usable_credentials(wanted: WantedPull, secret: Mapping[str, Any]) -> list[Credential]:
    """Return the secret's credentials for this tag; empty if only requests of another namespace may use it."""
    return read_secret_credentials(secret) if may_use(wanted, read_served_namespace(secret)) else []
