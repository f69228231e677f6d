"""The record of a peer: inputs, answers and outputs, so that a run can be had again."""
