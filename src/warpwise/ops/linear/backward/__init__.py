"""The specification and the ladder of activation_backward."""
