"""The hybrid source: several sources read one after the other (FLIP-150), for example a table and then a topic."""

from flip27_stream.connectors.hybrid.seam.exact_seam import ExactSeam
from flip27_stream.connectors.hybrid.seam.overlap import Overlap
from flip27_stream.connectors.hybrid.source import HybridSource, HybridSourceBuilder
from flip27_stream.connectors.hybrid.source_list import SourceSwitchContext

__all__ = ["ExactSeam", "HybridSource", "HybridSourceBuilder", "Overlap", "SourceSwitchContext"]
