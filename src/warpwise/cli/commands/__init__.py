"""The options and the help of each command. Importing them does not import PyTorch."""
