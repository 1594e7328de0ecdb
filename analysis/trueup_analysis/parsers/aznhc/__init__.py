"""Azure's node health checks (AzNHC): parser (output) and view. No role starts them."""
