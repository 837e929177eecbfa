"""DeepLIFT: rules that pass differences back through a network, operation by operation."""
