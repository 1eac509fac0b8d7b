"""Entry point of `python -m pykruise.cli`, for machines on which the script `pykruise` is not on the path."""

from pykruise.cli.entry import main

main()
