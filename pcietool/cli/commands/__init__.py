"""One module a subcommand: parse, call, render."""
