"""What was measured against what healthy nodes reach: on the controller and on the node itself."""
