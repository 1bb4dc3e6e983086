"""Connections of planning to brokers: their options, their set-up, and the diagnosis of failures."""
