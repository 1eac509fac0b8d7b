"""What can be set about a manager, as one frozen value; the command line fills it in."""

import msgspec

from pykruise.kinds.cloneset.snapshot import Settings as CloneSetSettings


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of every kind. The defaults are OpenKruise's."""

    cloneset: CloneSetSettings = CloneSetSettings()
