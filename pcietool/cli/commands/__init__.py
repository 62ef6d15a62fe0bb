"""One module a command: its help, its columns, and what is special about it. `cli.app` lists it; its options stand
beside the fields of its probe's config."""
