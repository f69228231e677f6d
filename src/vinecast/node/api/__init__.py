"""What applications use: Node, SyncNode, subscriptions, receipts, topics, schemas, settings."""
