"""Sources read one after the other as one (FLIP-150): history first, then what comes live."""

from flip27_stream.connectors.hybrid.exact_seam import ExactSeam
from flip27_stream.connectors.hybrid.overlap import Overlap
from flip27_stream.connectors.hybrid.source import HybridSource, HybridSourceBuilder
from flip27_stream.connectors.hybrid.source_list import SourceSwitchContext

__all__ = ["ExactSeam", "HybridSource", "HybridSourceBuilder", "Overlap", "SourceSwitchContext"]
