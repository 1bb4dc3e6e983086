"""Kafka brokers, what they are filled with, and their listeners."""
