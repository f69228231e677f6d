"""The live world: a node that drives the machines with real time, real connections and a real disk."""
