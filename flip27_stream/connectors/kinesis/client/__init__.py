"""Calls of the service with boto3: retries, limits of calls, the project's errors."""
