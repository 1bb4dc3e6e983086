"""What runs in the planning process."""
