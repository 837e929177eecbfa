"""What studies are made from: subjects, a context that hands out models and explanations, adversaries, testimony."""
