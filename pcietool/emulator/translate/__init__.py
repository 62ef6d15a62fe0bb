"""PTX into Python generators: the instruction set, and how each instruction becomes a line."""
