"""IOR: parser (output) and view. No role starts it."""
