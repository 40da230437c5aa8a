"""What functions and the translator stand on: dtypes, values, errors, the emitter of operations."""
