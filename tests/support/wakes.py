"""Keys that an event enqueues according to a kind's declarations, with simulated objects.

Woken(KIND, {CLONE_SET_VIEWS: [view]}, settings=Settings()).by(POD_VIEWS, None, pod) == ["web"]
"""

from collections.abc import Callable
from typing import Any

from pykruise.kube.cache.cache import Change
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.plans.kind import Kind
from pykruise.runtime.assemble import views_of
from pykruise.runtime.read import Around, Memories
from pykruise.runtime.views import Views
from pykruise.runtime.wakes import Later
from support.snapshots import OnPaper, control_of, listed


class Woken:
    """The wakes of a kind, and the objects that they can look up. `is_making`: whether a creation is in progress."""

    def __init__(
        self,
        kind: Kind,
        objects: OnPaper,
        *,
        settings: Any,
        memories: Memories | None = None,
        is_making: Callable[[Resource, Key], bool] = lambda *_: False,
    ) -> None:
        control = control_of(kind)
        self._wakes = control.wakes(settings)
        self.around: Around[Any] = Around(
            listed(views_of(control, settings), objects),
            settings=settings,
            memories=memories or Memories(),
            is_making=is_making,
            now=lambda: 0.0,
        )

    def keys(self, on: Views[Any], old: Any, new: Any) -> list[Key | Later]:
        """Keys that a change of an object from `old` to `new` enqueues, in order; None: it does not exist."""
        item = new or old
        change = Change(Key(item.namespace, item.name), old, new)
        return [key for wake in self._wakes if wake.on is on for key in wake.keys(change, self.around)]

    def by(self, on: Views[Any], old: Any, new: Any) -> list[str]:
        """Names of the objects that are enqueued immediately, each once."""
        return sorted({key.name for key in self.keys(on, old, new) if isinstance(key, Key)})
