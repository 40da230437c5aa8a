"""The base of functions and translator: dtypes, values, errors, the emitter of operations."""
