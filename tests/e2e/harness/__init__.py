"""What the end-to-end tests stand on: the built program, a client, an upstream, a Redis."""
