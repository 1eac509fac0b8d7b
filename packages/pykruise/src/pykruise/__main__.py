"""`python -m pykruise`: the `pykruise` script, for where it is not on the path."""

from pykruise.cli.entry import main

main()
