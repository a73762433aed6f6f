"""The ladder of conv_block_backward."""
