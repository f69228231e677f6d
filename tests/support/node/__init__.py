"""What tests of nodes share: live nodes, transports, stores, and what strangers may say."""
