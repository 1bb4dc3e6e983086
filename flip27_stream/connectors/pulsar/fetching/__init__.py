"""What runs in a task."""
