"""The conversion of messages to rows."""
