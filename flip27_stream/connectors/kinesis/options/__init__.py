"""What users may say."""
