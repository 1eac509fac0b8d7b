"""`python -m pykruise.cli`: the `pykruise` script, for a place where the script is not on the path."""

from pykruise.cli.entry import main

main()
