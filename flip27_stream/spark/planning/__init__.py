"""The code of the planning process, on the driver: one coordinator for each source of a query."""
