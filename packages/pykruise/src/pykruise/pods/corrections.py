"""How a person corrects what pods are made from: the part of a remedy that differs from owner to owner.

the owner of a pod ──▶ Correction ──▶ remedies of pods/lifecycle/blockers.py

Pure. A template has another place in each kind. Not every kind gives a changed template to pods that are there, and
some have one that cannot be changed.
"""

from typing import Final

import msgspec


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """Where the template of pods is, and what becomes of pods that are there when it changes."""

    where: str = "spec.template"
    """Field that a person changes."""
    name: str = "the template"
    """The same, in words."""
    then: str = ""
    """Second step, since existing pods keep their old template."""
    again: str = ""
    """The object that has to be created again, as its template cannot be changed; empty: it can."""

    def of(self, what: str) -> str:
        """`correct the image in spec.template`."""
        return self._either(f"correct {what} in {self.where}", f"with {what} corrected")

    def change(self, what: str) -> str:
        """`change the requests of spec.template`."""
        return self._either(f"change the {what} of {self.where}", f"with other {what}")

    @property
    def whole(self) -> str:
        """Where it is not known which field it is."""
        return self._either(f"correct {self.name}", "with a template that works")

    def _either(self, changed: str, created: str) -> str:
        return f"create {self.again} again {created}" if self.again else f"{changed}{self.then}"


IN_TEMPLATE: Final = Correction()
"""Correction in a workload, which replaces or updates its pods."""
OF_A_JOB: Final = Correction(then=", then delete the pod, which keeps the old one")
"""Correction in a job: existing pods stay unchanged, and a deleted one is created from the new template."""
OF_THE_WORKLOAD: Final = Correction(
    where="the template of the pod's workload", name="the template of the pod's workload"
)
"""Correction in the workload of pods that the object only observes."""
