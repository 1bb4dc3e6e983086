"""The code that runs in a task, on an executor."""
