"""The results pages, a file for each part of them."""
