"""The ladder of grouped_matmul."""
