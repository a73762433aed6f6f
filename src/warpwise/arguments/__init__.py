"""The arguments of an operation: schema string, checks, nested tensors; random values and layouts for tests."""
