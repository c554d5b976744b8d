"""The `bellman` command."""
