"""AzCopy: parser of its summary (output) and view. No role starts it."""
