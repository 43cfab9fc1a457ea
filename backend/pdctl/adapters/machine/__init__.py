"""What this machine says of processes and devices."""
