"""Explanations as text for a terminal, and as HTML with SVG pictures."""
