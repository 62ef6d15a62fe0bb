"""The PTX memory model as an operational view model."""
