"""Seeded generators of skewed streams: the same arguments give the same rows, on any machine."""

from skewless.workloads.flows import Flows
from skewless.workloads.hashtags import Hashtags
from skewless.workloads.hilbert import hilbert_index, hilbert_xy
from skewless.workloads.live_commerce import LiveCommerce, write_live_commerce
from skewless.workloads.ride_hailing import City, write_batches
from skewless.workloads.triples import SixFields
from skewless.workloads.vectors import Vectors
from skewless.workloads.zipf import ZipfKeys, zipf_streams

__all__ = [
    "City",
    "Flows",
    "Hashtags",
    "LiveCommerce",
    "SixFields",
    "Vectors",
    "ZipfKeys",
    "hilbert_index",
    "hilbert_xy",
    "write_batches",
    "write_live_commerce",
    "zipf_streams",
]
