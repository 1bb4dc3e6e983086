"""The client of the Kinesis source: calls with boto3, with retries, limits of calls and the errors of this project."""
