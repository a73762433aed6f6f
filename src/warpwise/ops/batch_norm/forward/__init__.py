"""The ladder of batch_norm."""
