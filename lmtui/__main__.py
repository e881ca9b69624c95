"""`python -m lmtui` is the `lmtui` command."""

from lmtui.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
