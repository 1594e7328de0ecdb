"""Facts about a machine: hardware, system, packages and state."""
