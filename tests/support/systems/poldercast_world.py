"""The subscriptions on which PolderCast's machines are held against its sweeps."""

from vinecast.sim.workload.subscriptions import Subscriptions, follower_graph, pattern


def small_world(nodes: int, seed: int) -> Subscriptions:
    if nodes < 30:
        return pattern("random", seed, nodes, topics=20, subscriptions=5)
    return follower_graph(seed, nodes, mean=8.0, std_in=40.0, std_out=20.0, community=20)
