"""What several probes share: the ranks and their slots, cases, efforts, checks, hangs, injections."""
