"""Servers of language models, measured by other tools: parser (output) and view. No role starts
one of these."""
