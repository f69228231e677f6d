"""The log: signed records as blocks, streams of them, the interface of a store, and the checker of its
promises."""
