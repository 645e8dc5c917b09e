"""`python -m invariscope` is the command `invariscope`."""

from __future__ import annotations

from invariscope.cli import main

if __name__ == "__main__":
    main(prog_name="invariscope")
