"""A package that rashomon has never heard of."""
