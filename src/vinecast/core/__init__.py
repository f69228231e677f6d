"""The vocabulary of the house: identifiers, draws, rules, events and effects, configuration, errors, traces.

Standard library and NumPy only. Two optional friends are used where they are installed and never needed:
Numba (compiles the rules) and PyArrow (carries the trace schema).
"""
