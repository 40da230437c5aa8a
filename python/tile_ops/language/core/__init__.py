"""The base of functions and translator: dtypes, values, errors, and the emitter of operations."""
