"""The Kafka client of planning: rounds of requests to the leaders of a cluster."""
