"""supple in the libraries people train with: a file for each, which imports its library when it is imported itself."""
