"""`python -m pcietool`: the same as the `pcietool` script."""

from pcietool.cli import main

main()
