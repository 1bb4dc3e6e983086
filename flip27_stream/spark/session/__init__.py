"""What runs in the session, when a query is defined."""
