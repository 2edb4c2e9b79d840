"""The smallest complete stream join. From the root of the repository:

python examples/make_city.py && python examples/ten_lines.py
"""

from pyspark.sql import SparkSession

import skewless as sk

spark = SparkSession.builder.config("spark.sql.streaming.schemaInference", "true").getOrCreate()
orders = sk.readStream(spark).parquet("demo-output/city/orders")
tracks = sk.readStream(spark).parquet("demo-output/city/tracks")
joined = sk.join(orders, tracks, on="cell", time=("ordered_at", "seen_at"), within="2 minutes")
writer = joined.writeStream.format("parquet").trigger(availableNow=True)
writer = writer.option("checkpointLocation", "demo-output/ten_lines/checkpoint")
writer.start("demo-output/ten_lines/joined").awaitTermination()
print(spark.read.parquet("demo-output/ten_lines/joined").count(), "matches")
