"""Whose requests a pull secret serves: those of the namespace that it is from, and no others.

NodeImage: pullSecrets of an image, tags with the jobs that ask for them ──▶ Asking: one tag, one secret ──▶ credentials

A NodeImage names secrets for an image, not for a tag or a job. Were each used for every tag, whoever may create
ImagePullJobs could have any tag of a repository pulled with credentials of another namespace, and then run it. So the
agent of a node looks where a secret is from: a copy says it in an annotation, any other is of its own namespace. A tag
without owners was written by hand, by someone who may write NodeImages and so decides for all.

Pure; every reader of pull secrets on nodes, real or simulated, asks here.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.agent.rules.image_pulls import WantedPull
from pykruise.kube.documents import annotations_of, get_path
from pykruise.kube.values.registry_credentials import Credential, credentials_in_secret

SOURCE_KEY: Final = "imagepulljobs.kruise.io/source-key"
"""On a copy of a secret: `<namespace>/<name>` of what it is a copy of."""


def namespace_served(secret: Mapping[str, Any]) -> str:
    """The namespace whose requests the secret serves."""
    source = annotations_of(secret).get(SOURCE_KEY)
    if isinstance(source, str) and "/" in source:
        return source.partition("/")[0]
    return str(get_path(secret, "metadata", "namespace", default=""))


def may_use(wanted: WantedPull, namespace: str) -> bool:
    """Whether this tag is pulled for that namespace."""
    owners = wanted.owner_references or ()
    return not owners or any(owner.get("namespace", "") == namespace != "" for owner in owners)


def usable_credentials(wanted: WantedPull, secret: Mapping[str, Any]) -> list[Credential]:
    """Credentials in the secret for this tag; empty when the secret belongs to another namespace."""
    return credentials_in_secret(secret) if may_use(wanted, namespace_served(secret)) else []
