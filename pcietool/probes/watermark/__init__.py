"""watermark."""
