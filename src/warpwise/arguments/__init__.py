"""The arguments of an operation: schema string, checks, nested tensors, values and layouts for tests."""
