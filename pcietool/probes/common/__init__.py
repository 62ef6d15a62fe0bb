"""What several probes share: the ranks and their slots, hangs, injections, parts."""
