"""The client: pulsar-client, with its errors as ours."""
