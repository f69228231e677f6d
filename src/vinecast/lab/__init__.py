"""The laboratory: what measures the product and is no part of it. Nothing but cli imports it."""
