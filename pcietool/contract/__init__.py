"""The plain types that every floor shares: how a launch ended, and what a probe found."""
