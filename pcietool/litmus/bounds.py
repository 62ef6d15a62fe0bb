"""Where a search of a litmus test gives up. Light: `--help` shows it."""

MAX_STATES = 1_000_000
MAX_SECONDS = 60.0
