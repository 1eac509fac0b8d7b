"""Arguments of each `pykruise` command, and the module that runs it."""
