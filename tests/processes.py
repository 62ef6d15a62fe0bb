"""What has become of processes that tests started."""

import time
from pathlib import Path


def is_gone(pid: int) -> bool:
    """Ended, even if nobody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pid: int) -> None:
    """For ever: the limit of a test ends it."""
    while not is_gone(pid):
        time.sleep(0.02)
