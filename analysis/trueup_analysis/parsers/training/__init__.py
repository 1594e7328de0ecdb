"""Training logs of other programs than Megatron: parser (output) and view. No role starts them."""
