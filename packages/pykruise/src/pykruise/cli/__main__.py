"""Runs `python -m pykruise.cli`: the `pykruise` script where the script is not on the path."""

from pykruise.cli.entry import main

main()
