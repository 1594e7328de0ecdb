"""SuperBench: parser (output) and view. No role starts it."""
