"""Conversion of custom resources by functions of this process, where a cluster would call a webhook.

storage version ──▶ ConversionFunctions.find_converter(crd, version) ──▶ another served version, and back

Objects of a CRD that names a conversion webhook are not converted here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import ConversionError, Conversions, convert
from pykruise.sandbox.apiserver.catalog import Converter
from pykruise.sandbox.apiserver.requests.statuses import make_internal_error


class ConversionFunctions:
    """A `catalog.Conversions` for the kinds in `table`. Objects of other kinds only get another apiVersion."""

    def __init__(self, table: Conversions) -> None:
        self._table = table

    def find_converter(self, crd: Mapping[str, Any], version: str) -> Converter | None:
        spec = crd["spec"]
        group, kind = spec["group"], spec["names"]["kind"]
        storage = next(each["name"] for each in spec["versions"] if each.get("storage"))
        asks_webhook = (spec.get("conversion") or {}).get("strategy") == "Webhook"
        recorded = set((crd.get("status") or {}).get("storedVersions") or ())
        # In the storage version, conversion is needed only if some objects may be stored in another version.
        is_plain = version == storage and recorded <= {storage}
        if is_plain or asks_webhook or (group, kind) not in self._table:
            return None
        return _FunctionConverter(self._table, stored=f"{group}/{storage}", served=f"{group}/{version}")


class _FunctionConverter:
    def __init__(self, table: Conversions, *, stored: str, served: str) -> None:
        self._table = table
        self._stored = stored
        self._served = served

    async def from_storage(self, docs: Sequence[Document]) -> list[Document]:
        return [self._convert_document(doc, self._served) for doc in docs]

    async def to_storage(self, docs: Sequence[Document]) -> list[Document]:
        return [self._convert_document(doc, self._stored) for doc in docs]

    def _convert_document(self, doc: Document, to: str) -> Document:
        """Convert one document. A failure fails the whole request, as with a webhook."""
        try:
            return convert(doc, to, self._table)
        except ConversionError as err:
            what = f"{doc.get('apiVersion')}, Kind={doc.get('kind')}"
            raise make_internal_error(f"conversion webhook for {what} failed: {err}") from err
