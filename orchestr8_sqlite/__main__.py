"""`python -m orchestr8_sqlite` is the command `orchestr8-sqlite`."""

from orchestr8_sqlite.cli import main

if __name__ == "__main__":
    main()
