"""`python -m tools.go actionlint FILE…`: build the program if it is missing, and run it."""

import os
import sys

from testbed.build import BuildError
from tools.go import find_program

try:
    path = find_program(sys.argv[1])
except BuildError as error:
    sys.exit(f"error: {error}")
os.execv(path, [str(path), *sys.argv[2:]])
