"""The ladder of gaussian_blur_backward."""
