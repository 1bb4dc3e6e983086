"""What runs in the planning process, on the driver: one coordinator per source of a query."""
