"""The service: boto3, with its errors as ours, retries, and limits of calls."""
