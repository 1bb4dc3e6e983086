"""The code of the session, which runs when a query is defined."""
