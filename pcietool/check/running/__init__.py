"""Runs a scenario in each way there is, and says what came of it."""
