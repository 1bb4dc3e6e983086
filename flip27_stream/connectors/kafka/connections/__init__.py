"""Connections of planning to brokers: their options, how they are opened, and why one fails."""
