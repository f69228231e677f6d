"""The simulated world: two engines, a network, churn, workloads, scenarios and what is measured in them."""
