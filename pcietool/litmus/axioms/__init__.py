"""The published axioms of the PTX memory model: which candidate executions of a litmus test are consistent."""
