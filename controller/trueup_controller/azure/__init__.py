"""Azure itself: who is signed in, its REST API, and the machines that it lists."""
