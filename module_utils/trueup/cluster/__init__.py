"""Planning and control of many machines."""
