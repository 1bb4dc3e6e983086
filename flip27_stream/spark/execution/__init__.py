"""What runs in a task, on an executor."""
