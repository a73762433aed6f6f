"""The ladder of gaussian_blur."""
