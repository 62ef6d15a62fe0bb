"""What every test shares."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Warnings are errors. Said here because pyproject.toml would say it to other plugins while they start, and one
    that warns then (pytest-benchmark with xdist, pytest-asyncio) ends the run before the first test."""
    config.addinivalue_line("filterwarnings", "error")
