"""`wait --for=condition=…|delete|create|jsonpath=…`: until objects are so, or time is over.

Info, what is waited for ──▶ is_met() (pure) ◀──watch── changes
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.printing import printer_of
from pykruise.cli.kubectl.resources import Error, Info, asked_for, find, get
from pykruise.cli.kubectl.rollout_status import changes_of
from pykruise.cli.kubectl.session import Session
from pykruise.kube.errors import KubeError, NotFoundError

Document = Mapping[str, Any]


def read_condition(text: str) -> Callable[[Document], bool]:
    """`condition=Ready`, `condition=Ready=false`, `jsonpath={.status.phase}=Running`. Raises KubectlError."""
    kind, sign, rest = text.partition("=")
    if kind == "condition" and rest:
        name, _, value = rest.partition("=")
        return lambda document: has_condition(document, name, value or "True")
    if kind == "jsonpath" and sign:
        match = re.fullmatch(r"'?(\{.*?\})'?(?:=(.*))?", rest)
        if match:
            from pykruise.cli.kubectl.jsonpath import JsonPath

            path, wanted = JsonPath(match[1]), match[2]
            return lambda document: bool(said := path.text(document)) and (wanted is None or said == wanted)
    raise KubectlError(f"unrecognized condition: {text!r}")


def has_condition(document: Document, name: str, value: str) -> bool:
    """Whether a condition has that status, as the object's latest generation was observed."""
    status = document.get("status") or {}
    generation = document["metadata"].get("generation", 0)
    for one in status.get("conditions") or ():
        if str(one.get("type", "")).lower() == name.lower():
            seen = one.get("observedGeneration") or status.get("observedGeneration")
            is_current = seen is None or seen >= generation
            return is_current and str(one.get("status", "")).lower() == value.lower()
    return False


async def wait(session: Session) -> list[Error]:
    """`wait RESOURCE --for=…`."""
    call = session.call
    text = call.text("for")
    if not text:
        raise KubectlError("--for is required: condition=NAME, delete, create or jsonpath={…}=VALUE")
    timeout_s = call.seconds("timeout")
    printer = printer_of(call)
    if text == "delete":
        return await _until_gone(session, timeout_s)
    if text == "create":
        for info in await _created(session, timeout_s):
            session.around.out(printer.text(info, "condition met"))
        return []
    is_met = read_condition(text)
    found = await find(session, call.arguments)
    errors: list[Error] = list(found.errors)
    for info in found.infos:
        try:
            met = await _until(session, info, is_met, timeout_s)
            session.around.out(printer.text(met, "condition met"))
        except TimeoutError:
            errors.append(
                KubectlError(f"timed out waiting for the condition on {info.resource.plural}/{info.name}")
            )
        except (KubeError, KubectlError) as error:
            errors.append(error)
    return errors


async def _until(session: Session, info: Info, is_met: Callable[[Document], bool], timeout_s: float) -> Info:
    if is_met(info.document):
        return info
    async with asyncio.timeout(timeout_s):
        async for document in changes_of(session, info):
            if is_met(document):
                return info.with_document(document)
    raise TimeoutError


async def _until_gone(session: Session, timeout_s: float) -> list[Error]:
    found = await find(session, session.call.arguments)
    errors: list[Error] = [one for one in found.errors if not isinstance(one, NotFoundError)]
    printer = printer_of(session.call)
    client = await session.client()
    for info in found.infos:
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    await client.get(info.resource, info.namespace, info.name)
                    await asyncio.sleep(0.2)
        except NotFoundError:
            session.around.out(printer.text(info, "condition met"))
        except TimeoutError:
            errors.append(
                KubectlError(f"timed out waiting for the condition on {info.resource.plural}/{info.name}")
            )
    return errors


async def _created(session: Session, timeout_s: float) -> list[Info]:
    """Objects that need not be there yet."""
    mapper = await session.mapper()
    pairs = asked_for(session.call.arguments, allow_all=False).pairs
    found: list[Info] = []
    for word, name in pairs:
        served = mapper.find(word)
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    try:
                        found.append(await get(session, served, name))
                        break
                    except NotFoundError:
                        await asyncio.sleep(0.2)
        except TimeoutError:
            raise KubectlError(
                f"timed out waiting for the condition on {served.resource.plural}/{name}"
            ) from None
    return found
