"""The ladder of grouped_matmul_backward."""
