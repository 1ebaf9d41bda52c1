"""What is found in the files of a library that should not be obeyed unseen."""
