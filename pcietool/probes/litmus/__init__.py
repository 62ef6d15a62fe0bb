"""litmus, on the model and on machines."""
