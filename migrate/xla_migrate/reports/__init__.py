"""What a run has to say, one module a format."""
