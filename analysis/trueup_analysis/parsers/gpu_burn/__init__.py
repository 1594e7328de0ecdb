"""gpu-burn: parser (output) and view. No role starts it."""
