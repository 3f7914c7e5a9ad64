"""The small real engine: its own scheduler and KV handling; transformers does the forward pass and the tokenizing."""
