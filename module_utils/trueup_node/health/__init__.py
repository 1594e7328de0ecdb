"""Measured figures against those of healthy nodes: on the controller and on the node itself."""
