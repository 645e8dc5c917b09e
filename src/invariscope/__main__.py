"""`python -m invariscope` is the command `invariscope`."""

from invariscope.cli import main

if __name__ == "__main__":
    main(prog_name="invariscope")
