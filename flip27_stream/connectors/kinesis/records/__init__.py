"""From records of a response to rows."""
