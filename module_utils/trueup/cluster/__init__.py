"""What many machines are told."""
