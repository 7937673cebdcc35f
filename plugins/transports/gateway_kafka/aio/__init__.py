"""The client library aiokafka: pure asyncio."""
