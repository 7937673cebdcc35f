"""The transport `websocket`: CloudEvents over WebSocket connections, in both directions, from either end."""
