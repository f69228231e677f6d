"""What tests share: networks, live nodes, strangers, Spark, and where things are."""
