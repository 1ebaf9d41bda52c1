"""The entry point of the bundle: serves the index that the user chose, else the one in the wheel beside this file."""

import sys

from orchestr8_sqlite.cli import main

if __name__ == "__main__":
    sys.argv[1:] = ["serve"]
    main()
