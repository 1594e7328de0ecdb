"""Language models by their config.json: memory, layout, speed and cost of serving them."""
