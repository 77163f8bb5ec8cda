"""Helpers of the tests, in folders by what they help with."""
