"""An alignment group: who belongs to it, who is alive, and the least watermark of the others."""
