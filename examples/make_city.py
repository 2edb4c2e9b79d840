"""Writes the two streams that the examples join: the orders and taxi tracks of a small city.

    python examples/make_city.py                  # from the root of the repository

They land in demo-output/city/orders and demo-output/city/tracks, one parquet file per batch. The
same arguments write the same rows, whenever and wherever.
"""

from __future__ import annotations

import argparse

from skewless.workloads import City, write_batches


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the orders and tracks of a city.")
    parser.add_argument("--output", default="demo-output/city", help="the folder to write to")
    parser.add_argument("--batches", type=int, default=6, help="files per stream")
    parser.add_argument("--orders", type=int, default=2_000, help="orders per batch")
    parser.add_argument("--tracks", type=int, default=18_000, help="tracks per batch")
    parser.add_argument("--minutes", type=float, default=3.0, help="event time in a batch")
    parser.add_argument("--seed", type=int, default=7, help="another seed is another city")
    args = parser.parse_args()

    city = City(order=7, seed=args.seed)
    write_batches(city, args.output, args.batches, args.orders, args.tracks, args.minutes * 60)
    print(f"{args.batches} batches of orders and tracks are in {args.output}")


if __name__ == "__main__":
    main()
