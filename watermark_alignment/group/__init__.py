"""An alignment group: its members, which of them are alive, and the least watermark of the other members."""
