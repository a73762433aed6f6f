"""The ladder of conv_block."""
